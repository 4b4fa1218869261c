/// From the handles of the C interface to what they stand for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace kintsugi::capi {

/// A handle has the type of a pointer, so that a compiler tells connections from files, and the value of a number that
/// is never given out again, over all tables: one that was ended, or is of another kind, is not found. Numbers are
/// odd, as no pointer of a caller's is.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> last{1};
  return last += 2;
}

/// Any thread may call.
template <class Handle, class Object>
class HandleTable {
 public:
  Handle* add(std::shared_ptr<Object> object) {
    const uint64_t number = next_handle();
    const std::lock_guard lock(mutex_);
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle*>(number);
  }

  /// Null: there is none.
  std::shared_ptr<Object> find(const Handle* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  /// When two threads take the same handle at once, one of them gets it.
  std::shared_ptr<Object> take(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto node = objects_.extract(reinterpret_cast<uint64_t>(handle));
    return node ? std::move(node.mapped()) : nullptr;
  }

  template <class Predicate>
  void remove_if(Predicate predicate) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace kintsugi::capi
