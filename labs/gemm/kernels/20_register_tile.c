// C = A B with a tile of C in registers.
// Layout: A is M,K, B is K,N, C is M,N, all row-major. Serves every shape.
// Changed since 10_blocked: kRowTile x kPanel elements of C, kPanel = kColumnVectors * kLanes, stay in registers
// for the whole loop over K. Each vector of B is used kRowTile times and each broadcast element of A
// kColumnVectors times, which is what it takes to keep two FMA units busy with two loads a cycle.
#include <stdint.h>

#include "ws_vector.h"

enum {
    kColumnVectors = COLUMN_VECTORS,
    kPanel = kColumnVectors * kLanes,
    kRowTile = ROW_TILE,
    kBlockM = BLOCK_M,
    kBlockN = BLOCK_N,
    kMaxTile = 8,
};
_Static_assert(kBlockN % kPanel == 0, "a block is a whole number of tiles");
_Static_assert(kRowTile >= 1 && kRowTile <= kMaxTile, "tiles of 1 to 8 rows are written out below");

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// c[0 .. n_rows)[0 .. kPanel) = A B.
WS_INLINE void tile(const int n_rows, const float *a, const float *b, float *c, int64_t k, int64_t n) {
    vec acc[kMaxTile][kColumnVectors];
    WS_UNROLL for (int row = 0; row < n_rows; row++) {
        WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
            acc[row][i] = (vec){0};
        }
    }
    for (int64_t step = 0; step < k; step++) {
        WS_UNROLL for (int row = 0; row < n_rows; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                acc[row][i] += vec_load(b + step * n + i * kLanes) * a[row * k + step];
            }
        }
    }
    WS_UNROLL for (int row = 0; row < n_rows; row++) {
        WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
            vec_store(c + row * n + i * kLanes, acc[row][i]);
        }
    }
}

// The same for fewer than kPanel columns, at the right edge.
static void edge(int64_t n_rows, int64_t n_columns, const float *a, const float *b, float *c, int64_t k, int64_t n) {
    for (int64_t row = 0; row < n_rows; row++) {
        float sums[kPanel] = {0};
        for (int64_t step = 0; step < k; step++) {
            for (int64_t column = 0; column < n_columns; column++) {
                sums[column] += a[row * k + step] * b[step * n + column];
            }
        }
        for (int64_t column = 0; column < n_columns; column++) {
            c[row * n + column] = sums[column];
        }
    }
}

static void tile_of(int64_t n_rows, const float *a, const float *b, float *c, int64_t k, int64_t n) {
    switch (n_rows) {
#define TILE_CASE(rows) \
    case rows: tile(rows, a, b, c, k, n); break;
        TILE_CASE(1)
#if ROW_TILE >= 2
        TILE_CASE(2)
#endif
#if ROW_TILE >= 3
        TILE_CASE(3)
#endif
#if ROW_TILE >= 4
        TILE_CASE(4)
#endif
#if ROW_TILE >= 5
        TILE_CASE(5)
#endif
#if ROW_TILE >= 6
        TILE_CASE(6)
#endif
#if ROW_TILE >= 7
        TILE_CASE(7)
#endif
#if ROW_TILE >= 8
        TILE_CASE(8)
#endif
    }
}

// A block is kBlockM x kBlockN elements of C; blocks of one column follow each other.
void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    int64_t n_row_blocks = (m + kBlockM - 1) / kBlockM;
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row0 = block % n_row_blocks * kBlockM;
        int64_t column0 = block / n_row_blocks * kBlockN;
        int64_t n_rows = smaller(m - row0, kBlockM);
        int64_t n_tiles = (n_rows + kRowTile - 1) / kRowTile;

        for (int64_t column = column0; column < smaller(n, column0 + kBlockN); column += kPanel) {
            if (n - column < kPanel) {
                edge(n_rows, n - column, a + row0 * k, b + column, c + row0 * n + column, k, n);
                break;
            }
            // Rows are dealt out to the tiles evenly: 64 rows in tiles of at most 6 are nine tiles of 6 and
            // two of 5, never a remainder of 4 that leaves the FMA units waiting.
            for (int64_t i = 0; i < n_tiles; i++) {
                int64_t row = row0 + n_rows * i / n_tiles;
                int64_t next = row0 + n_rows * (i + 1) / n_tiles;
                tile_of(next - row, a + row * k, b + column, c + row * n + column, k, n);
            }
        }
    }
}
