#include "common/base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "common/base/last_words.h"

namespace kintsugi {

void assertion_failed(const char* expression, const char* file, int line) {
  char text[512];
  std::snprintf(text, sizeof text, "%s:%d: assertion failed: %s", file, line, expression);
  write_last_words(text);
  std::abort();
}

}  // namespace kintsugi
