// What the cases know of a kernel: a function that calls it in one thread, compiled from its source.
#ifndef EMULATE_KERNEL_H
#define EMULATE_KERNEL_H

#include <vector>

#include "machine.h"

struct KernelArguments {
    std::vector<void *> tensors; // of the lab, in order
    std::vector<int> axes;
    float scale;
    std::vector<emu::TensorMap> maps;
};

void call_kernel(const KernelArguments &arguments);

// A tensor, whatever its elements are called in the kernel.
struct AnyPointer {
    void *pointer;

    template <typename T>
    operator T *() const {
        return static_cast<T *>(pointer);
    }
};

#endif
