// Hopes that a constructor of its own runs in the harness.
#include <cstdlib>

#include "cheat.cuh"

struct AtLoad {
    AtLoad() {
        std::system("true");
    }
};
static AtLoad at_load;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
}
