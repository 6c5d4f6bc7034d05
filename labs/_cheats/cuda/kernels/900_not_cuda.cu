// What a model writes when it was asked for something else.
extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    row = tl.program_id(0)
    tl.store(c + row, tl.dot(a, b.T))
}
