// C = A B with B packed into panels, so that the register tile reads memory in order.
// Layout: A is M,K, B is K,N, C is M,N, all row-major. Serves every shape.
//
// Two launches. The first copies B into column panels of kPanel = kColumnVectors * kLanes floats, zero
// beyond N: packed_b is (panel, K, kPanel). The second computes kBlockM x kBlockN blocks of C.
// Changed since 20_register_tile: a panel's rows follow each other in memory, so a tile touches few pages
// and no two rows of it compete for the same cache set, and the loop over K is cut into kBlockK so that
// the piece of a panel that all row tiles of a block share stays in the first-level cache.
#include <stdint.h>

#include "ws_vector.h"

enum {
    kColumnVectors = COLUMN_VECTORS,
    kPanel = kColumnVectors * kLanes,
    kRowTile = ROW_TILE,
    kBlockM = BLOCK_M,
    kBlockN = BLOCK_N,
    kBlockK = BLOCK_K,
    kMaxTile = 8,
};
_Static_assert(kBlockN % kPanel == 0, "a block is a whole number of panels");
_Static_assert(kRowTile >= 1 && kRowTile <= kMaxTile, "tiles of 1 to 8 rows are written out below");

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// --- First launch ----------------------------------------------------------------------------------------

// A block is one panel.
void pack_b(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed_b,
            int64_t block_begin, int64_t block_end) {
    (void)a;
    (void)c;
    (void)m;
    for (int64_t panel = block_begin; panel < block_end; panel++) {
        float *to = (float *)packed_b + panel * k * kPanel; // (k, kPanel)
        int64_t column = panel * kPanel;
        int64_t width = smaller(n - column, kPanel);
        if (width == kPanel) {
            for (int64_t row = 0; row < k; row++) {
                WS_UNROLL for (int i = 0; i < kPanel; i += kLanes) {
                    vec_store(to + row * kPanel + i, vec_load(b + row * n + column + i));
                }
            }
        } else {
            for (int64_t row = 0; row < k; row++) {
                for (int64_t i = 0; i < kPanel; i++) {
                    to[row * kPanel + i] = i < width ? b[row * n + column + i] : 0.0f;
                }
            }
        }
    }
}

// --- Second launch ---------------------------------------------------------------------------------------

// c[0 .. n_rows)[0 .. width) = (first ? 0 : c) + A B over depth.
WS_INLINE void tile(const int n_rows, const float *a, const float *packed_b, float *c, int64_t k, int64_t n,
                    int64_t depth, int64_t width, int first) {
    vec acc[kMaxTile][kColumnVectors];
    WS_UNROLL for (int row = 0; row < n_rows; row++) {
        WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
            acc[row][i] = (vec){0};
        }
    }
    WS_UNROLL_BY(UNROLL) for (int64_t step = 0; step < depth; step++) {
        WS_UNROLL for (int row = 0; row < n_rows; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                acc[row][i] += vec_load(packed_b + step * kPanel + i * kLanes) * a[row * k + step];
            }
        }
    }
    if (width == kPanel) {
        WS_UNROLL for (int row = 0; row < n_rows; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                float *to = c + row * n + i * kLanes;
                if (!first) {
                    acc[row][i] += vec_load(to);
                }
                vec_store(to, acc[row][i]);
            }
        }
    } else {
        WS_UNROLL for (int row = 0; row < n_rows; row++) {
            float sums[kPanel];
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                vec_store(sums + i * kLanes, acc[row][i]);
            }
            for (int64_t column = 0; column < width; column++) {
                c[row * n + column] = sums[column] + (first ? 0.0f : c[row * n + column]);
            }
        }
    }
}

static void tile_of(int64_t n_rows, const float *a, const float *packed_b, float *c, int64_t k, int64_t n,
                    int64_t depth, int64_t width, int first) {
    switch (n_rows) {
#define TILE_CASE(rows) \
    case rows: tile(rows, a, packed_b, c, k, n, depth, width, first); break;
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
void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed_b,
          int64_t block_begin, int64_t block_end) {
    (void)b;
    int64_t n_row_blocks = (m + kBlockM - 1) / kBlockM;
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row0 = block % n_row_blocks * kBlockM;
        int64_t column0 = block / n_row_blocks * kBlockN;
        int64_t n_rows = smaller(m - row0, kBlockM);
        int64_t n_tiles = (n_rows + kRowTile - 1) / kRowTile;

        for (int64_t step = 0; step < k; step += kBlockK) {
            int64_t depth = smaller(k - step, kBlockK);
            for (int64_t column = column0; column < smaller(n, column0 + kBlockN); column += kPanel) {
                const float *panel = (const float *)packed_b + column * k + step * kPanel; // (depth, kPanel)
                int64_t width = smaller(n - column, kPanel);
                // Rows are dealt out to the tiles evenly: 64 rows in tiles of at most 6 are nine tiles of 6
                // and two of 5, never a remainder of 4 that leaves the FMA units waiting.
                for (int64_t i = 0; i < n_tiles; i++) {
                    int64_t row = row0 + n_rows * i / n_tiles;
                    int64_t next = row0 + n_rows * (i + 1) / n_tiles;
                    tile_of(next - row, a + row * k + step, panel, c + row * n + column, k, n, depth, width, step == 0);
                }
            }
        }
    }
}
