/// The memory that outlives the process which serves a mount: a memfd that the parent holds and each child maps.
///
/// It begins with a header: what was agreed with the kernel, and which requests are in flight. Behind it is room for
/// the file system's own: open handles, leases, dirty buffers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/mount/kernel/file_system.h"

namespace kintsugi::mount {

class SharedState {
 public:
  /// A new memfd with room for `room_bytes` (which take memory when they are used). Returns the descriptor.
  static Result<int> create(uint64_t room_bytes);
  /// Maps what create() made, in this or another process. Owns `descriptor`. kCorrupt: made by a version that differs,
  /// or damaged.
  static Result<std::unique_ptr<SharedState>> map(int descriptor);
  ~SharedState();
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  /// Nothing before the kernel's INIT was answered.
  std::optional<Negotiated> negotiated() const;
  void store(const Negotiated& negotiated);
  /// How many processes served before this one. The first call in a process counts that process.
  uint64_t enter();

  static constexpr size_t kJournalWords = 2048;  ///< see ConnectionOptions::journal
  std::span<std::atomic<uint64_t>> journal();
  /// All zeros at first; aligned to a page.
  std::span<std::byte> room() const { return room_; }
  int descriptor() const { return descriptor_; }

 private:
  struct Agreement;
  struct Header;
  SharedState(int descriptor, Header* header, size_t bytes);

  int descriptor_;
  Header* header_;
  size_t bytes_;
  std::span<std::byte> room_;
};

}  // namespace kintsugi::mount
