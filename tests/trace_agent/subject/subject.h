/// Functions that are there to be traced: compiled with sleds and as released code is, whatever the tests are compiled with.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>

namespace kintsugi::subject {

void leaf();
void middle();     ///< calls leaf() twice
void outer();      ///< calls middle(), and leaf() behind it
void beside();     ///< calls nobody, and nobody calls it
void unreached();  ///< not even a test calls it
void throws();     ///< calls leaf(), then throws
void catches();    ///< calls throws() by way of passes_on(), and leaf() for the exception
void passes_on();
int tail_target(int number);
int tail_call(int number);                         ///< goes to tail_target() in its place
int tail_call_by(int (*target)(int), int number);  ///< goes wherever it is told to
int by_table(int which);                           ///< calls a virtual function
void behind_library();
void behind_table();
void calls_library();  ///< reaches behind_library() by way of two functions without sleds
int calls_library_by_table(
    int which);  ///< has one without sleds call a virtual function. That of 2 has no sleds, and calls behind_table()
void empty();  ///< does nothing
void call_empty(uint64_t times);
void deep(int depth);  ///< calls itself

/// Arguments and results in all kinds of registers.
struct Pair {
  int64_t first = 0, second = 0;
};
struct Doubles {
  double first = 0, second = 0;
};
Pair integers(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g);
Doubles doubles(double a, double b, double c, double d, double e, double f, double g, double h);
long double extended(long double a);
double various(int count, ...);
/// Promises to leave all general registers but r11 as they are.
[[clang::preserve_most]] void promises();
/// Calls the five above and says whether all results, and the registers that were promised, are as they should be.
bool registers_survive();

/// Gives numbers one after the other.
class Numbers {
 public:
  struct promise_type {
    int number = 0;
    Numbers get_return_object() { return Numbers(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int value) {
      number = value;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  explicit Numbers(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Numbers(Numbers&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ~Numbers() {
    if (handle_) handle_.destroy();
  }
  int next();

 private:
  std::coroutine_handle<promise_type> handle_;
};
Numbers count_up();
int use_numbers();  ///< takes two numbers

}  // namespace kintsugi::subject
