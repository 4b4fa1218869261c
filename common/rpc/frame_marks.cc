#include "common/rpc/frame_marks.h"

namespace kintsugi::rpc {

// Each has to be called, and with all its arguments: the compiler is not to see that nothing is done with them.
[[gnu::noinline]] void frame_sent(uint64_t channel, uint64_t number, uint64_t bytes, uint64_t call,
                                  uint64_t word) {
  asm volatile("" : : "r"(channel), "r"(number), "r"(bytes), "r"(call), "r"(word));
}

[[gnu::noinline]] void frame_received(uint64_t channel, uint64_t number, uint64_t bytes, uint64_t call,
                                      uint64_t word) {
  asm volatile("" : : "r"(channel), "r"(number), "r"(bytes), "r"(call), "r"(word));
}

}  // namespace kintsugi::rpc
