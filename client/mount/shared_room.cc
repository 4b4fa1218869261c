#include "client/mount/shared_room.h"

#include "common/base/assert.h"

namespace kintsugi::mount {
namespace {

constexpr size_t kJournalBytes = 64 << 10;  // whole pages, so that the dirty bytes begin at a page
static_assert(sizeof(client::ChangeJournal) <= kJournalBytes);
constexpr size_t kBeforeAppends = kJournalBytes + client::NameLog::kBytes + client::OwnLocks::kBytes;
constexpr size_t kBeforeDirty = kBeforeAppends + client::AppendLog::kBytes;

class RoomMemory final : public client::DirtyMemory {
 public:
  explicit RoomMemory(std::span<std::byte> region) : region_(region) {}
  std::span<std::byte> region() override { return region_; }

 private:
  std::span<std::byte> region_;
};

}  // namespace

SharedRoom::SharedRoom(std::span<std::byte> room)
    : journal_(reinterpret_cast<client::ChangeJournal*>(room.data())),
      names_(room.subspan(kJournalBytes, client::NameLog::kBytes)),
      locks_(room.subspan(kJournalBytes + client::NameLog::kBytes, client::OwnLocks::kBytes)),
      appends_(room.subspan(kBeforeAppends, client::AppendLog::kBytes)),
      dirty_(room.subspan(kBeforeDirty)) {
  KINTSUGI_ASSERT(room.size() > kBeforeDirty);
}

size_t SharedRoom::bytes_needed(size_t dirty_region_bytes) {
  return kBeforeDirty + dirty_region_bytes;
}

std::unique_ptr<client::DirtyMemory> SharedRoom::dirty_memory() const {
  return std::make_unique<RoomMemory>(dirty_);
}

}  // namespace kintsugi::mount
