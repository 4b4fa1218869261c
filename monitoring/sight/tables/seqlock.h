/// Fields and records that one thread writes while any other may read them, without locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kintsugi::sight {

template <class T>
void put(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}

template <class T>
T get(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

template <class T>
void add(T& field, T amount) {
  put(field, static_cast<T>(field + amount));  // there is only one writer
}

/// A count that one thread writes and any may read.
class Count {
 public:
  void increment() { value_.store(get() + 1, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// A seqlock around writes of one record: its sequence is odd meanwhile. The fence keeps the writes behind the odd
/// number and the release keeps them before the even one, so a reader that sees one even number before and after its
/// copy has a whole record.
template <class Record>
class Writing {
 public:
  explicit Writing(Record& record) : record_(record) {
    put(record_.sequence, record_.sequence + 1);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Writing() {
    std::atomic_ref<uint32_t>(record_.sequence).store(record_.sequence + 1, std::memory_order_release);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Record& record_;
};

using Word = uint64_t __attribute__((may_alias));

/// Writes the words of a record but for the first, which holds the sequence.
template <class Record>
void put_words(Record& to, const Record& from) {
  for (size_t i = 1; i < sizeof(Record) / 8; ++i)
    __atomic_store_n(reinterpret_cast<Word*>(&to) + i, reinterpret_cast<const Word*>(&from)[i],
                     __ATOMIC_RELAXED);
}

/// False: the record was being written in each of a few attempts.
template <class Record>
bool copy_whole(const Record& from, Record& to) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint32_t before =
        std::atomic_ref<uint32_t>(const_cast<uint32_t&>(from.sequence)).load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    for (size_t i = 0; i < sizeof(Record) / 8; ++i)
      reinterpret_cast<Word*>(&to)[i] =
          __atomic_load_n(reinterpret_cast<const Word*>(&from) + i, __ATOMIC_RELAXED);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (get(from.sequence) == before) return true;
  }
  return false;
}

}  // namespace kintsugi::sight
