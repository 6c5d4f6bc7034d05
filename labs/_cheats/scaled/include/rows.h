// What the cheats share: the honest computation of one row.
#ifndef ROWS_H
#define ROWS_H

#include <math.h>
#include <stdint.h>

static inline void honest_row(const float *x, float *y, int64_t d, float eps, float s) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++) {
        sum += (double)x[i] * x[i];
    }
    float factor = (float)((double)s / sqrt(sum / (double)d + (double)eps));
    for (int64_t i = 0; i < d; i++) {
        y[i] = x[i] * factor;
    }
}

#endif
