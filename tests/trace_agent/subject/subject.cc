#include "tests/trace_agent/subject/subject.h"

#include <cstdarg>
#include <stdexcept>

// Nothing of a function may be known to its callers, or they would not call it as everybody does.
#define SUBJECT [[gnu::noinline]]
// Functions of libraries have no sleds.
#define LIBRARY [[gnu::noinline, clang::xray_never_instrument]]

namespace kintsugi::subject {

namespace {

volatile int64_t sink = 0;

struct Shape {
  virtual ~Shape() = default;
  virtual int corners() const = 0;
};
struct Triangle final : Shape {
  int corners() const override {
    sink = 3;
    return 3;
  }
};
struct Square final : Shape {
  int corners() const override {
    sink = 4;
    return 4;
  }
};
struct LibraryShape final : Shape {
  LIBRARY int corners() const override {
    behind_table();
    return 5;
  }
};
const Triangle triangle;
const Square square;
const LibraryShape library_shape;
const Shape* volatile const shapes[3] = {&triangle, &square, &library_shape};

}  // namespace

SUBJECT void leaf() {
  sink = 1;
}
SUBJECT void middle() {
  leaf();
  leaf();
  sink = 2;
}
SUBJECT void outer() {
  middle();
  leaf();
  sink = 3;
}
SUBJECT void beside() {
  sink = 4;
}
SUBJECT void unreached() {
  sink = 18;
}
SUBJECT void throws() {
  leaf();
  throw std::runtime_error("on purpose");
}
SUBJECT void passes_on() {
  throws();
  sink = 5;
}
SUBJECT void catches() {
  try {
    passes_on();
  } catch (const std::runtime_error&) {
    leaf();
  }
  sink = 6;
}
SUBJECT int tail_target(int number) {
  sink = number;
  return number + 1;  // others write to `sink` meanwhile
}
SUBJECT int tail_call(int number) {
  sink = 7;
  [[clang::musttail]] return tail_target(number);
}
SUBJECT int tail_call_by(int (*target)(int), int number) {
  sink = 8;
  return target(number);
}
SUBJECT int by_table(int which) {
  const int corners = shapes[which]->corners();
  sink = corners;
  return corners;
}
SUBJECT void behind_library() {
  sink = 12;
}
SUBJECT void behind_table() {
  sink = 13;
}
LIBRARY void library_inner() {
  behind_library();
  sink = 14;
}
LIBRARY void library_outer() {
  library_inner();
  sink = 15;
}
SUBJECT void calls_library() {
  library_outer();
  sink = 16;
}
LIBRARY int library_by_table(int which) {
  const int corners = shapes[which]->corners();
  sink = corners;
  return corners;
}
SUBJECT int calls_library_by_table(int which) {
  const int corners = library_by_table(which);
  sink = 17;
  return corners;
}
SUBJECT void empty() {
  asm volatile("");
}
SUBJECT void call_empty(uint64_t times) {
  for (uint64_t i = 0; i < times; ++i)
    empty();
}
SUBJECT void deep(int depth) {
  if (depth > 0) deep(depth - 1);
  sink = depth;
}

SUBJECT Pair integers(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g) {
  sink = a;
  return {a + 2 * b + 3 * c, 4 * d + 5 * e + 6 * f + 7 * g};
}
SUBJECT Doubles doubles(double a, double b, double c, double d, double e, double f, double g, double h) {
  sink = 9;
  return {a + 2 * b + 3 * c + 4 * d, 5 * e + 6 * f + 7 * g + 8 * h};
}
SUBJECT long double extended(long double a) {
  sink = 10;
  return a * 2;
}
SUBJECT double various(int count, ...) {
  va_list values;
  va_start(values, count);
  double sum = 0;
  for (int i = 0; i < count; ++i)
    sum += va_arg(values, double);
  va_end(values);
  return sum;
}
SUBJECT [[clang::preserve_most]] void promises() {
  sink = 11;
}
/// All registers that a usual call may change, but for r11, have a bit each before the call. The stack below is the function's own.
SUBJECT bool promised_registers_survive() {
  uint64_t bits = 0;
  register void (*callee)() asm("r11") = reinterpret_cast<void (*)()>(&promises);
  asm volatile(R"(
      lea -128(%%rsp), %%rsp
      mov $1, %%eax
      mov $2, %%ecx
      mov $4, %%edx
      mov $8, %%esi
      mov $16, %%edi
      mov $32, %%r8d
      mov $64, %%r9d
      mov $128, %%r10d
      call *%%r11
      lea 128(%%rsp), %%rsp
      add %%rcx, %%rax
      add %%rdx, %%rax
      add %%rsi, %%rax
      add %%rdi, %%rax
      add %%r8, %%rax
      add %%r9, %%rax
      add %%r10, %%rax)"
               : "=a"(bits), "+r"(callee)
               :
               : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "cc", "memory");
  return bits == 255;
}
SUBJECT bool registers_survive() {
  const Pair whole = integers(1, 2, 3, 4, 5, 6, 7);
  const Doubles fractions = doubles(1, 2, 3, 4, 5, 6, 7, 8);
  return whole.first == 14 && whole.second == 126 && fractions.first == 30 && fractions.second == 174 &&
         extended(1.5L) == 3 && various(3, 1.5, 2.5, 3.5) == 7.5 && promised_registers_survive();
}

int Numbers::next() {
  handle_.resume();
  return handle_.promise().number;
}
SUBJECT Numbers count_up() {
  for (int number = 1;; ++number) {
    leaf();
    co_yield number;
  }
}
SUBJECT int use_numbers() {
  Numbers numbers = count_up();
  const int first = numbers.next();
  return first * 10 + numbers.next();
}

}  // namespace kintsugi::subject
