#include "common/runtime/production/kernel_random.h"

#include <bit>
#include <cerrno>

#include <sys/random.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {

KernelRandom::KernelRandom() {
  fill(std::as_writable_bytes(std::span(state_)));
  state_[0] |= 1;  // the generator never leaves an all-zero state
}

uint64_t KernelRandom::next() {
  uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

void KernelRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    ssize_t filled = getrandom(out.data(), out.size(), 0);
    if (filled < 0 && errno == EINTR) continue;
    KINTSUGI_ASSERT(filled > 0);  // no secret is better than a guessable one
    out = out.subspan(static_cast<size_t>(filled));
  }
}

}  // namespace kintsugi::runtime
