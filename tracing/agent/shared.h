/// A value that several threads use. std::atomic cannot be compiled where only general registers may be used.
#pragma once

namespace kintsugi::tracing {

template <class T>
class Shared {
 public:
  constexpr Shared() = default;
  constexpr explicit Shared(T value) : value_(value) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Sees what was written before the store of the value that is returned.
  T load() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  T load_relaxed() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  void store(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }
  T exchange(T value) { return __atomic_exchange_n(&value_, value, __ATOMIC_ACQ_REL); }
  T add(T more) { return __atomic_fetch_add(&value_, more, __ATOMIC_RELAXED); }

 private:
  T value_{};
};

/// The same for a number of shared memory.
template <class T>
T add_to(T& number, T more) {
  return __atomic_fetch_add(&number, more, __ATOMIC_RELAXED);
}
template <class T>
T value_of(const T& number) {
  return __atomic_load_n(&number, __ATOMIC_RELAXED);
}
template <class T>
void publish(T& number, T value) {
  __atomic_store_n(&number, value, __ATOMIC_RELEASE);
}

}  // namespace kintsugi::tracing
