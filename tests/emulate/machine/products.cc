// Matrix products of a warpgroup (wgmma). Each warp's quarter of one is on its own: it reads its rows of a and all of b
// at some time between its start and the wait that covers its group.
#include "machine.h"

namespace emu {

// --- Operands in shared memory -----------------------------------------------------------------------------------

struct Matrix {
    unsigned address, leading, stride;
};

static Matrix decode(Descriptor descriptor, Location at) {
    if (descriptor >> 62 != 1) {
        fail(at, "only the 128-byte swizzle is emulated");
    }
    Matrix matrix;
    matrix.address = static_cast<unsigned>(descriptor & 0x3FFF) << 4;
    matrix.leading = static_cast<unsigned>(descriptor >> 16 & 0x3FFF) << 4;
    matrix.stride = static_cast<unsigned>(descriptor >> 32 & 0x3FFF) << 4;
    if ((descriptor >> 46 & 0xFFFF) != 0 || (descriptor >> 14 & 3) != 0 || (descriptor >> 30 & 3) != 0) {
        fail(at, "a descriptor with other bits than addresses and offsets");
    }
    if ((matrix.address & 0x380) != 0) {
        fail(at, "a descriptor that begins inside of 8 rows");
    }
    return matrix;
}

// Calls `visit(row, column of 8, shared address)` for every 16 bytes. K-major: rows are m or n, columns k.
template <typename Visit>
static void for_each_k_major(const Matrix &matrix, int first_row, int n_rows, Visit visit) {
    for (int row = first_row; row < first_row + n_rows; row++) {
        for (int piece = 0; piece < 2; piece++) {
            unsigned at = matrix.address + row / 8 * matrix.stride + row % 8 * 128 + piece * 16;
            visit(row, piece, swizzle_128(at));
        }
    }
}

// N-major: rows are k, columns n.
template <typename Visit>
static void for_each_n_major(const Matrix &matrix, int n, Visit visit) {
    for (int row = 0; row < 16; row++) {
        for (int piece = 0; piece < n / 8; piece++) {
            unsigned at = matrix.address + piece / 8 * matrix.leading + row / 8 * matrix.stride + row % 8 * 128 +
                          piece % 8 * 16;
            visit(row, piece, swizzle_128(at));
        }
    }
}

template <typename Visit>
static void for_each_granule(const Warp &warp, const Product &product, Visit visit) {
    Matrix b = decode(product.b, product.at);
    if (product.n_major) {
        for_each_n_major(b, product.n, [&](int, int, unsigned address) { visit(address); });
    } else {
        for_each_k_major(b, 0, product.n, [&](int, int, unsigned address) { visit(address); });
    }
    if (!product.a_in_registers) {
        for_each_k_major(decode(product.a, product.at), warp.index % 4 * 16, 16,
                         [&](int, int, unsigned address) { visit(address); });
    }
}

// --- Start -------------------------------------------------------------------------------------------------------

static Accumulator &take_accumulator(Warp &warp, const Product &product) {
    int n_registers = product.n / 2;
    auto found = warp.accumulators.find(product.d[0]);
    if (found != warp.accumulators.end()) {
        if (found->second.n_registers != n_registers || memcmp(found->second.d, product.d, sizeof product.d) != 0) {
            fail(product.at, "products of different shapes in one accumulator without a wait between them");
        }
        return found->second;
    }
    if (!warp.fenced) {
        fail(product.at, "no wgmma_fence between the last wait and this product");
    }
    Accumulator &accumulator = warp.accumulators[product.d[0]];
    memcpy(accumulator.d, product.d, sizeof product.d);
    accumulator.n_registers = n_registers;
    accumulator.n_products = 0;
    for (int lane = 0; lane < 32; lane++) {
        memcpy(accumulator.values[lane], product.d[lane], n_registers * sizeof(float));
        for (int i = 0; i < n_registers; i++) {
            memcpy(product.d[lane] + i, &kBusyBits, 4);
        }
    }
    return accumulator;
}

// The warps of a warpgroup must issue the same products.
static void compare_with_others(Warp &warp, const Product &product) {
    std::vector<Issued> &issued = warp.block->issued[warp.index / 4];
    Issued mine = {product.n, product.n_major, product.a_in_registers, product.accumulate, product.a, product.b};
    size_t at = warp.n_issued++;
    if (at == issued.size()) {
        issued.push_back(mine);
    } else if (issued[at] != mine) {
        fail(product.at, "the warps of a warpgroup issue different products");
    }
}

static void issue(Warp &warp, Product product) {
    compare_with_others(warp, product);
    take_accumulator(warp, product).n_products++;
    Block &block = *warp.block;
    for_each_granule(warp, product, [&](unsigned address) {
        shared_pointer(block, address, 16, product.at);
        check_not_copying(block, address, 16, product.at, "a product");
        block.readers[(address - kSharedBase) / 16]++;
    });
    warp.products.push_back(product);
    if (machine.policy.products_at_once) {
        while (execute_product(warp)) {
        }
    }
}

void start_product(int n, bool bf16, bool n_major, float *d, const unsigned *a_registers, Descriptor a, Descriptor b,
                   bool accumulate, Location at) {
    Warp &warp = *self->warp;
    if (warp.fibers.size() != 32 || warp.block->warps.size() < static_cast<size_t>(warp.index / 4 * 4 + 4)) {
        fail(at, "a product needs a whole warpgroup");
    }
    // Each lane's operands stay on its stack until the last lane has seen them all.
    struct Operands {
        float *d;
        const unsigned *a_registers;
        Descriptor a, b;
        bool accumulate;
    } mine = {d, a_registers, a_registers ? 0 : a, b, accumulate};
    collective("wgmma", at, reinterpret_cast<uint64_t>(&mine), [&](Warp &all, uint64_t *operands) {
        Product product;
        product.n = n;
        product.bf16 = bf16;
        product.n_major = n_major;
        product.a_in_registers = a_registers != nullptr;
        product.accumulate = accumulate;
        product.a = mine.a;
        product.b = b;
        product.at = at;
        for (int lane = 0; lane < 32; lane++) {
            const Operands &theirs = *reinterpret_cast<const Operands *>(operands[lane]);
            if (theirs.a != mine.a || theirs.b != b || theirs.accumulate != accumulate) {
                fail(at, "the lanes of a warp have different operands");
            }
            product.d[lane] = theirs.d;
            product.a_registers[lane] = theirs.a_registers;
            if (a_registers) {
                memcpy(product.a_words[lane], theirs.a_registers, 16);
            }
        }
        issue(all, product);
    });
}

void product_fence(Location at) {
    collective("wgmma.fence", at, 0, [](Warp &warp, uint64_t *) { warp.fenced = true; });
}

void product_commit(Location at) {
    collective("wgmma.commit_group", at, 0, [](Warp &warp, uint64_t *) {
        for (Product &product : warp.products) {
            product.group = product.group < 0 ? warp.n_groups : product.group;
        }
        warp.n_groups++;
    });
}

// --- Execution ---------------------------------------------------------------------------------------------------

static float widen(uint16_t bits, bool bf16) {
    return bf16 ? float_from_bf16(bits) : float_from_half(bits);
}

static void read_pieces(const Block &block, unsigned address, bool bf16, float *to, int step) {
    uint16_t bits[8];
    memcpy(bits, block.shared + (address - kSharedBase), 16);
    for (int i = 0; i < 8; i++) {
        to[i * step] = widen(bits[i], bf16);
    }
}

static void execute(Warp &warp, Product &product) {
    Block &block = *warp.block;
    static float a[16][16], b[16][256], sum[16][256];
    Matrix from_b = decode(product.b, product.at);
    if (product.n_major) {
        for_each_n_major(from_b, product.n, [&](int row, int piece, unsigned address) {
            read_pieces(block, address, product.bf16, &b[row][piece * 8], 1);
        });
    } else {
        for_each_k_major(from_b, 0, product.n, [&](int row, int piece, unsigned address) {
            read_pieces(block, address, product.bf16, &b[piece * 8][row], 256);
        });
    }
    int first_row = warp.index % 4 * 16;
    if (product.a_in_registers) {
        for (int lane = 0; lane < 32; lane++) {
            for (int word = 0; word < 4; word++) {
                int row = lane / 4 + word % 2 * 8, column = word / 2 * 8 + lane % 4 * 2;
                unsigned pair = product.a_words[lane][word];
                a[row][column] = widen(static_cast<uint16_t>(pair), product.bf16);
                a[row][column + 1] = widen(static_cast<uint16_t>(pair >> 16), product.bf16);
            }
        }
    } else {
        for_each_k_major(decode(product.a, product.at), first_row, 16, [&](int row, int piece, unsigned address) {
            read_pieces(block, address, product.bf16, &a[row - first_row][piece * 8], 1);
        });
    }
    for (int m = 0; m < 16; m++) {
        float *to = sum[m];
        memset(to, 0, sizeof(float) * product.n);
        for (int k = 0; k < 16; k++) {
            float factor = a[m][k];
            for (int i = 0; i < product.n; i++) {
                to[i] += factor * b[k][i];
            }
        }
    }
    Accumulator &accumulator = warp.accumulators.at(product.d[0]);
    for (int lane = 0; lane < 32; lane++) {
        float *values = accumulator.values[lane];
        for (int i = 0; i < product.n / 2; i++) {
            float found = sum[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
            values[i] = product.accumulate ? values[i] + found : found;
        }
    }
    product.executed = true;
}

bool execute_product(Warp &warp) {
    for (Product &product : warp.products) {
        if (!product.executed) {
            execute(warp, product);
            return true;
        }
    }
    return false;
}

// --- Wait --------------------------------------------------------------------------------------------------------

static void give_back(Warp &warp, Accumulator &accumulator, Location at) {
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < accumulator.n_registers; i++) {
            if (memcmp(accumulator.d[lane] + i, &kBusyBits, 4) != 0) {
                fail(at, text("accumulator %d of lane %d was written before the wait for its product", i, lane));
            }
        }
        memcpy(accumulator.d[lane], accumulator.values[lane], accumulator.n_registers * sizeof(float));
    }
    warp.accumulators.erase(accumulator.d[0]);
}

static void complete(Warp &warp, Product &product) {
    if (product.a_in_registers) {
        for (int lane = 0; lane < 32; lane++) {
            if (memcmp(product.a_registers[lane], product.a_words[lane], 16) != 0) {
                fail(product.at, "registers with a were written before the wait for their product");
            }
        }
    }
    for_each_granule(warp, product,
                     [&](unsigned address) { warp.block->readers[(address - kSharedBase) / 16]--; });
    Accumulator &accumulator = warp.accumulators.at(product.d[0]);
    if (--accumulator.n_products == 0) {
        give_back(warp, accumulator, product.at);
    }
}

void product_wait(int n_pending, Location at) {
    maybe_yield();
    collective("wgmma.wait_group", at, 0, [&](Warp &warp, uint64_t *) {
        int newest = warp.n_groups - n_pending;
        while (!warp.products.empty() && warp.products.front().group >= 0 && warp.products.front().group < newest) {
            if (!warp.products.front().executed) {
                execute_product(warp);
            }
            Product product = warp.products.front();
            warp.products.pop_front();
            complete(warp, product);
        }
        warp.fenced = false;
    });
}

} // namespace emu
