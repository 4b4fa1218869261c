/// The metadata as they were when a snapshot was made.
///
/// What is below a directory with snapshots keeps, when it changes for the first time after one was made, its former
/// value under keys::Kind::kSaved with the number of the newest snapshot that it is in (namespace/snapshots.h). So a
/// key had at snapshot s the first value that was saved for s or a later one, and else what it has now.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/keys.h"

namespace kintsugi::metaserver {

/// A value as it is saved.
struct SavedValue {
  std::optional<std::string> value;  ///< none: the key did not exist
  uint64_t born = 0;  ///< when the inode was made: no snapshot up to this number needs the value
  /// It may belong to any snapshot, not only to those of directories above or below its own.
  bool in_any = false;

  std::string serialise() const;
  /// REQUIRES: serialise() made the bytes.
  static SavedValue parse(std::string_view bytes);
};

/// Inodes, entries, extents and extended attributes as of a snapshot; everything else as it is now. The store outlives
/// it.
class SnapshotView final : public ReadView {
 public:
  SnapshotView(const ReadView& store, uint64_t snapshot) : store_(store), snapshot_(snapshot) {}

  std::optional<std::string> get(std::string_view key) const override;
  void scan(std::string_view begin, std::string_view end,
            const std::function<bool(std::string_view, std::string_view)>& visit) const override;

 private:
  const ReadView& store_;
  const uint64_t snapshot_;
};

/// What is saved of the very key for the snapshot, or for the next one that has anything of it. None: it is as now.
std::optional<SavedValue> find_saved(const ReadView& store, std::string_view key, uint64_t snapshot);

/// Visits what is saved of the very key for snapshots with numbers from `first` on, but before `end`, as
/// SavedValue::serialise() made it, until `visit` returns false.
void scan_saved(const ReadView& store, std::string_view key, uint64_t first, uint64_t end,
                const std::function<bool(uint64_t number, std::string_view value)>& visit);

/// Keys of this kind are saved for snapshots.
bool is_saved_kind(std::string_view key);

}  // namespace kintsugi::metaserver
