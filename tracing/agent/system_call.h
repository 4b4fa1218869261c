/// A system call without the library, whose functions may use registers that hold somebody's arguments.
#pragma once

namespace kintsugi::tracing {

inline long system_call(long number, long a = 0, long b = 0, long c = 0) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}

}  // namespace kintsugi::tracing
