// C = A B with both operands packed into panels.
// Layout: A is M,K, B is K,N, C is M,N, all row-major. Serves every shape.
//
// Two launches. The first packs A into row panels of kRowTile rows, (panel, K, kRowTile), and B into column
// panels of kPanel = kColumnVectors * kLanes columns, (panel, K, kPanel), both zero beyond the matrix. The
// second computes kBlockM x kBlockN blocks of C.
// Changed since 30_packed: the elements that a tile broadcasts in one step lie side by side. Rows of A that
// are a power of two apart fell into the same set of the cache and drove each other out.
#include <stdint.h>

#include "ws_vector.h"

enum {
    kColumnVectors = COLUMN_VECTORS,
    kPanel = kColumnVectors * kLanes,
    kRowTile = ROW_TILE,
    kBlockM = ROW_TILES * kRowTile,
    kBlockN = PANELS * kPanel,
    kBlockK = BLOCK_K,
};
_Static_assert(ROW_TILE >= 1 && ROW_TILE <= VEC_BYTES / 4, "a row panel is packed from one square of vectors");

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// --- First launch ----------------------------------------------------------------------------------------

// Packs rows row .. row + kRowTile of A, a square of vectors at a time.
static void pack_rows(const float *a, float *to, int64_t row, int64_t m, int64_t k) {
    int64_t step = 0;
    for (; step + kLanes < k; step += kLanes) {
        vec square[kLanes];
        WS_UNROLL for (int i = 0; i < kLanes; i++) {
            square[i] = (vec){0};
            if (i < kRowTile && row + i < m) {
                square[i] = vec_load(a + (row + i) * k + step);
            }
        }
        vec_transpose(square);
        // Each store covers kLanes elements; the next one overwrites what is beyond kRowTile.
        WS_UNROLL for (int i = 0; i < kLanes; i++) {
            vec_store(to + (step + i) * kRowTile, square[i]);
        }
    }
    for (; step < k; step++) {
        for (int i = 0; i < kRowTile; i++) {
            to[step * kRowTile + i] = row + i < m ? a[(row + i) * k + step] : 0.0f;
        }
    }
}

static void pack_columns(const float *b, float *to, int64_t column, int64_t n, int64_t k) {
    int64_t width = smaller(n - column, kPanel);
    if (width == kPanel) {
        for (int64_t step = 0; step < k; step++) {
            WS_UNROLL for (int i = 0; i < kPanel; i += kLanes) {
                vec_store(to + step * kPanel + i, vec_load(b + step * n + column + i));
            }
        }
    } else {
        for (int64_t step = 0; step < k; step++) {
            for (int64_t i = 0; i < kPanel; i++) {
                to[step * kPanel + i] = i < width ? b[step * n + column + i] : 0.0f;
            }
        }
    }
}

// A block is one panel: first those of A, then those of B.
void pack(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed_a, void *packed_b,
          int64_t block_begin, int64_t block_end) {
    (void)c;
    int64_t n_row_panels = (m + kRowTile - 1) / kRowTile;
    for (int64_t block = block_begin; block < block_end; block++) {
        if (block < n_row_panels) {
            pack_rows(a, (float *)packed_a + block * k * kRowTile, block * kRowTile, m, k);
        } else {
            int64_t panel = block - n_row_panels;
            pack_columns(b, (float *)packed_b + panel * k * kPanel, panel * kPanel, n, k);
        }
    }
}

// --- Second launch ---------------------------------------------------------------------------------------

// c[0 .. n_rows)[0 .. n_columns) = (first ? 0 : c) + A B over depth.
static void tile(const float *packed_a, const float *packed_b, float *c, int64_t n, int64_t depth, int64_t n_rows,
                 int64_t n_columns, int first) {
    vec acc[kRowTile][kColumnVectors];
    WS_UNROLL for (int row = 0; row < kRowTile; row++) {
        WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
            acc[row][i] = (vec){0};
        }
    }
    WS_UNROLL_BY(UNROLL) for (int64_t step = 0; step < depth; step++) {
        WS_UNROLL for (int row = 0; row < kRowTile; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                acc[row][i] += vec_load(packed_b + step * kPanel + i * kLanes) * packed_a[step * kRowTile + row];
            }
        }
    }
    if (n_rows == kRowTile && n_columns == kPanel) {
        WS_UNROLL for (int row = 0; row < kRowTile; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                float *to = c + row * n + i * kLanes;
                if (!first) {
                    acc[row][i] += vec_load(to);
                }
                vec_store(to, acc[row][i]);
            }
        }
    } else {
        float sums[kRowTile][kPanel];
        WS_UNROLL for (int row = 0; row < kRowTile; row++) {
            WS_UNROLL for (int i = 0; i < kColumnVectors; i++) {
                vec_store(&sums[row][i * kLanes], acc[row][i]);
            }
        }
        for (int64_t row = 0; row < n_rows; row++) {
            for (int64_t column = 0; column < n_columns; column++) {
                c[row * n + column] = sums[row][column] + (first ? 0.0f : c[row * n + column]);
            }
        }
    }
}

// A block is kBlockM x kBlockN elements of C; blocks of one column follow each other.
void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed_a, void *packed_b,
          int64_t block_begin, int64_t block_end) {
    (void)a;
    (void)b;
    int64_t n_row_blocks = (m + kBlockM - 1) / kBlockM;
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row0 = block % n_row_blocks * kBlockM;
        int64_t column0 = block / n_row_blocks * kBlockN;
        int64_t row_end = smaller(m, row0 + kBlockM);
        int64_t column_end = smaller(n, column0 + kBlockN);

        for (int64_t step = 0; step < k; step += kBlockK) {
            int64_t depth = smaller(k - step, kBlockK);
            for (int64_t column = column0; column < column_end; column += kPanel) {
                const float *panel_b = (const float *)packed_b + column * k + step * kPanel; // (depth, kPanel)
                for (int64_t row = row0; row < row_end; row += kRowTile) {
                    const float *panel_a = (const float *)packed_a + row * k + step * kRowTile; // (depth, kRowTile)
                    tile(panel_a, panel_b, c + row * n + column, n, depth, smaller(m - row, kRowTile),
                         smaller(n - column, kPanel), step == 0);
                }
            }
        }
    }
}
