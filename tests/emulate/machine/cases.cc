// Reads cases of fused attention from the standard input, runs the kernel on each under several seeds, and compares
// the output with a plain computation in double precision. Prints a line for each seed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "kernel.h"
#include "machine.h"

namespace {

typedef std::vector<uint16_t> Elements;

struct Case {
    int b, h, s, d, causal, bf16;
    float scale;
    double element_eps, norm_eps;
    std::string inputs;
    uint64_t first_seed, n_seeds;
    emu::Launch launch;
    struct Map {
        int tensor; // of q, k, v, o
        emu::TensorMap map;
    };
    std::vector<Map> maps;
};

bool read_case(Case &one) {
    std::string word;
    if (!(std::cin >> word) || word != "case") {
        return false;
    }
    emu::Launch &launch = one.launch;
    std::cin >> one.b >> one.h >> one.s >> one.d >> one.causal >> one.bf16 >> one.scale >> one.element_eps >>
        one.norm_eps >> one.inputs >> one.first_seed >> one.n_seeds;
    std::cin >> launch.grid.x >> launch.grid.y >> launch.grid.z >> launch.cluster.x >> launch.cluster.y >>
        launch.cluster.z >> launch.n_threads >> launch.shared_bytes >> launch.independent_lanes;
    size_t n_maps = 0;
    std::cin >> n_maps;
    one.maps.clear();
    for (size_t i = 0; i < n_maps; i++) {
        Case::Map map = {};
        std::cin >> map.tensor >> map.map.rank >> map.map.swizzle;
        map.map.element_bytes = 2;
        for (int k = 0; k < map.map.rank; k++) { // outermost first
            std::cin >> map.map.shape[map.map.rank - 1 - k] >> map.map.box[map.map.rank - 1 - k];
        }
        one.maps.push_back(map);
    }
    return static_cast<bool>(std::cin);
}

// --- Inputs ------------------------------------------------------------------------------------------------------

float normal(emu::Random &random) {
    // Box and Muller.
    double u = (static_cast<double>(random.next() >> 11) + 1.0) * 0x1p-53;
    double v = static_cast<double>(random.next() >> 11) * 0x1p-53;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
}

uint16_t narrow(float x, bool bf16) {
    return bf16 ? emu::bf16_from_float(x) : emu::half_from_float(x);
}

float widen(uint16_t bits, bool bf16) {
    return bf16 ? emu::float_from_bf16(bits) : emu::float_from_half(bits);
}

// Where inputs are not finite, they are so in the last head alone: the others must come out right beside it.
size_t first_unchecked_row(const Case &one) {
    size_t n_heads = static_cast<size_t>(one.b) * one.h;
    return (one.inputs == "not_finite" ? n_heads - 1 : n_heads) * one.s;
}

// tensor: 0 is q, 1 is k, 2 is v.
Elements make_input(const Case &one, size_t tensor) {
    emu::Random random;
    random.state = 1000 + tensor;
    size_t n_rows = static_cast<size_t>(one.b) * one.h * one.s;
    Elements elements(n_rows * one.d);
    for (size_t row = 0; row < n_rows; row++) {
        // Between 1 and 0 from the first key to the last, which a kernel may visit first.
        float early = 1.0f - static_cast<float>(row % one.s) / static_cast<float>(one.s);
        for (int i = 0; i < one.d; i++) {
            float x = normal(random);
            if (tensor == 0 && one.inputs == "large") {
                x *= 10.0f;
            } else if (tensor == 1 && one.inputs == "equal") {
                x = 0.5f;
            } else if (tensor == 1 && one.inputs == "rising") {
                x *= 0.1f + 12.0f * early;
            } else if (tensor == 1 && one.inputs == "falling") {
                x *= 0.1f + 12.0f * (1.0f - early);
            } else if (row >= first_unchecked_row(one)) {
                // Some rows have none of these, some one, some several.
                size_t place = (row * one.d + i) % 97;
                x = place == tensor ? NAN : place == 3 ? INFINITY : place == 4 ? -INFINITY : x;
            }
            elements[row * one.d + i] = narrow(x, one.bf16);
        }
    }
    return elements;
}

// --- The reference -----------------------------------------------------------------------------------------------

std::vector<double> reference(const Case &one, const Elements &q, const Elements &k, const Elements &v) {
    size_t s = one.s, d = one.d;
    std::vector<double> out(q.size());
    std::vector<double> keys(d * s), values(s * d), scores(s); // keys transposed: the inner loop runs along them
    for (size_t head = 0; head < static_cast<size_t>(one.b) * one.h; head++) {
        size_t first = head * s * d;
        for (size_t row = 0; row < s; row++) {
            for (size_t i = 0; i < d; i++) {
                keys[i * s + row] = widen(k[first + row * d + i], one.bf16);
                values[row * d + i] = widen(v[first + row * d + i], one.bf16);
            }
        }
        for (size_t row = 0; row < s; row++) {
            size_t n_keys = one.causal ? row + 1 : s;
            std::fill(scores.begin(), scores.end(), 0.0);
            for (size_t i = 0; i < d; i++) {
                double x = widen(q[first + row * d + i], one.bf16) * static_cast<double>(one.scale);
                for (size_t key = 0; key < n_keys; key++) {
                    scores[key] += x * keys[i * s + key];
                }
            }
            double largest = *std::max_element(scores.begin(), scores.begin() + n_keys), sum = 0;
            double *to = &out[first + row * d];
            for (size_t key = 0; key < n_keys; key++) {
                double weight = std::exp(scores[key] - largest);
                sum += weight;
                for (size_t i = 0; i < d; i++) {
                    to[i] += weight * values[key * d + i];
                }
            }
            for (size_t i = 0; i < d; i++) {
                to[i] /= sum;
            }
        }
    }
    return out;
}

// --- Memory of the device ----------------------------------------------------------------------------------------

constexpr size_t kGuard = 4096;        // elements before and after each tensor
constexpr uint16_t kUnwritten = 0x7E5A; // not a number in either type, and none that a conversion makes

struct Guarded {
    Elements all;

    explicit Guarded(const Elements &content) : all(content.size() + 2 * kGuard, kUnwritten) {
        std::copy(content.begin(), content.end(), all.begin() + kGuard);
    }
    uint16_t *data() { return all.data() + kGuard; }
};

// --- Comparison --------------------------------------------------------------------------------------------------

struct Verdict {
    std::string wrong;
    double element = 0, norm = 0; // in units of epsilon
};

std::string index_of(const Case &one, size_t at) {
    return emu::text("head %zu row %zu dim %zu", at / one.d / one.s, at / one.d % one.s, at % one.d);
}

// The lab's rule: an element relative to the larger of its own size and its row's root mean square, and the whole.
Verdict compare(const Case &one, const uint16_t *out, const std::vector<double> &expected) {
    Verdict verdict;
    double epsilon = one.bf16 ? 0x1p-7 : 0x1p-10;
    size_t n_unwritten = 0, n_not_finite = 0, first_bad = expected.size(), worst_at = 0;
    double error = 0, size = 0;
    for (size_t at = first_unchecked_row(one) * one.d; at < expected.size(); at++) {
        if (out[at] == kUnwritten) {
            n_unwritten++;
            first_bad = std::min(first_bad, at);
        }
    }
    for (size_t row = 0; row < first_unchecked_row(one); row++) {
        double squares = 0;
        for (int i = 0; i < one.d; i++) {
            squares += expected[row * one.d + i] * expected[row * one.d + i];
        }
        double rms = std::sqrt(squares / one.d);
        for (int i = 0; i < one.d; i++) {
            size_t at = row * one.d + i;
            double got = widen(out[at], one.bf16);
            if (!std::isfinite(got)) {
                (out[at] == kUnwritten ? n_unwritten : n_not_finite)++;
                first_bad = std::min(first_bad, at);
                continue;
            }
            double ratio = std::fabs(got - expected[at]) / std::max(std::fabs(expected[at]), rms) / epsilon;
            if (ratio > verdict.element) {
                verdict.element = ratio;
                worst_at = at;
            }
            error += (got - expected[at]) * (got - expected[at]);
            size += expected[at] * expected[at];
        }
    }
    verdict.norm = first_unchecked_row(one) == 0 ? 0 : std::sqrt(error / size) / epsilon;
    if (n_unwritten + n_not_finite > 0) {
        verdict.wrong = emu::text("%zu elements were not written and %zu are not finite, the first at %s", n_unwritten,
                                  n_not_finite, index_of(one, first_bad).c_str());
    } else if (verdict.element > one.element_eps) {
        verdict.wrong = emu::text("%s: got %g, expected %g, off by %.1f epsilon", index_of(one, worst_at).c_str(),
                                  widen(out[worst_at], one.bf16), expected[worst_at], verdict.element);
    } else if (!(verdict.norm <= one.norm_eps)) { // nor may it be NaN
        verdict.wrong = emu::text("the norm of the error is %.2f epsilon", verdict.norm);
    }
    return verdict;
}

// --- Running -----------------------------------------------------------------------------------------------------

Verdict run(const Case &one, const Elements *inputs, const std::vector<double> &expected, uint64_t seed) {
    std::vector<Guarded> tensors;
    for (int i = 0; i < 3; i++) {
        tensors.emplace_back(inputs[i]);
    }
    tensors.emplace_back(Elements(inputs[0].size(), kUnwritten));
    std::vector<Elements> before;
    for (Guarded &tensor : tensors) {
        before.push_back(tensor.all);
    }

    KernelArguments arguments;
    for (Guarded &tensor : tensors) {
        arguments.tensors.push_back(tensor.data());
    }
    arguments.axes = {one.b, one.h, one.s, one.d, one.causal, one.bf16};
    arguments.scale = one.scale;
    for (const Case::Map &map : one.maps) {
        arguments.maps.push_back(map.map);
        arguments.maps.back().base = reinterpret_cast<unsigned char *>(tensors[map.tensor].data());
    }
    Verdict verdict;
    verdict.wrong = emu::run_launch(one.launch, [&] { call_kernel(arguments); }, seed);
    if (!verdict.wrong.empty()) {
        return verdict;
    }
    for (int i = 0; i < 4; i++) {
        const Elements &now = tensors[i].all, &was = before[i];
        bool inside_too = i < 3;
        for (size_t at = 0; at < now.size(); at++) {
            bool guarded = inside_too || at < kGuard || at >= now.size() - kGuard;
            if (guarded && now[at] != was[at]) {
                long long index = static_cast<long long>(at) - static_cast<long long>(kGuard);
                verdict.wrong = emu::text("element %lld of %c was written to", index, "qkvo"[i]);
                return verdict;
            }
        }
    }
    return compare(one, tensors[3].data(), expected);
}

} // namespace

int main() {
    Case one;
    bool all_passed = true;
    while (read_case(one)) {
        Elements inputs[3] = {make_input(one, 0), make_input(one, 1), make_input(one, 2)};
        std::vector<double> expected = reference(one, inputs[0], inputs[1], inputs[2]);
        for (uint64_t seed = one.first_seed; seed < one.first_seed + one.n_seeds; seed++) {
            printf("seed %llu ", static_cast<unsigned long long>(seed));
            fflush(stdout);
            Verdict verdict = run(one, inputs, expected, seed);
            if (verdict.wrong.empty()) {
                printf("ok %.3f %.3f\n", verdict.element, verdict.norm);
            } else {
                std::replace(verdict.wrong.begin(), verdict.wrong.end(), '\n', '\t');
                printf("wrong %s\n", verdict.wrong.c_str());
                all_passed = false;
            }
            fflush(stdout);
        }
        printf("end\n");
        fflush(stdout);
    }
    return all_passed ? 0 : 1;
}
