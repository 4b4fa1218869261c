/// Judges the write-ahead logs in the directory of a store before RocksDB opens it, which would drop what it cannot
/// replay in silence.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"
#include "metaserver/kv/wal_check.h"

namespace kintsugi::metaserver {

struct WalFile {
  uint64_t number = 0;
  std::string path;
  WalReport report;
};

/// Acknowledged batches cannot be replayed: they stood in `file` from `offset` on.
struct WalDamage {
  size_t file = 0;  ///< index into the logs
  uint64_t offset = 0;
  /// Intact records after the damage, in this log and in later ones.
  uint64_t following_records = 0;
};

/// Looks at logs in the order in which they were written. A log's last record was synced before the next log was
/// begun, so a log whose tail is broken must be the last one that holds anything. The exception is a log that was
/// recovered after a crash and remained: there the next log continues with the sequence number of the record that was
/// cut off.
std::optional<WalDamage> find_damage(std::span<const WalFile> logs);

/// ok: all that was acknowledged can be replayed, as far as the logs tell. A last record that a crash has cut off is
/// logged.
/// kCorrupt: the error says where the damage is and what to do. kUnavailable: another process has the directory open.
/// REQUIRES: this process has the directory not open.
Status check_wal_directory(const std::string& directory);

}  // namespace kintsugi::metaserver
