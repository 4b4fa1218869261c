#include "client/capi/outcome.h"

#include <string>

#include "common/base/errno_of.h"

namespace kintsugi::capi {
namespace {

/// Not on the heap: a thread that ends late, or a process that exits, has nothing to destroy.
constexpr size_t kMaxErrorBytes = 512;
thread_local char error_text[kMaxErrorBytes];

}  // namespace

int64_t to_result(const Outcome& outcome) {
  if (outcome) return *outcome;
  const std::string text = outcome.error().to_string();
  error_text[text.copy(error_text, kMaxErrorBytes - 1)] = '\0';
  return -int64_t{errno_of(outcome.error())};
}

const char* last_error() {
  return error_text;
}

}  // namespace kintsugi::capi
