/// Assertions for what must be true. They stay on in release builds: a server that no longer understands its
/// own state must stop before it writes more of it.
#pragma once

namespace kintsugi {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

#define KINTSUGI_ASSERT(expression) \
  (static_cast<bool>(expression) ? void(0) : ::kintsugi::assertion_failed(#expression, __FILE__, __LINE__))
