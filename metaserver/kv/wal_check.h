/// Judges the bytes of one write-ahead log of RocksDB: is every record whole, was the last one cut off, or is something
/// damaged that was once synced?
///
/// The format is LevelDB's, which is public: blocks of 32 KiB, and in them fragments of records, each with a header of
/// seven bytes (CRC, length, type). A record is one fragment, or a first, any number of middle ones and a last, for no
/// fragment crosses the border of a block. The record's contents are a batch of writes, which begins with the sequence
/// number of its first write and the number of its writes, so that each batch says where the next one has to begin.
///
/// RocksDB itself stops at the first record that is not right and drops everything behind it in silence. This code
/// tells a crash from damage: every commit is synced before the next one is written, so a crash can only break the
/// last record, and an intact record behind a broken one proves that the broken one was acknowledged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kintsugi::metaserver {

inline constexpr size_t kWalBlockBytes = 32 * 1024;

enum class WalVerdict : uint8_t {
  kWhole,
  kTornTail,  ///< the last record is incomplete or broken, and nothing intact follows it
  kDamaged,   ///< intact records follow one that is broken or missing
};

struct WalReport {
  uint64_t bytes = 0;              ///< length of the log
  uint64_t intact_bytes = 0;       ///< where the first bad record begins; equal to `bytes` when there is none
  uint64_t intact_records = 0;     ///< intact records before the first bad one
  uint64_t following_records = 0;  ///< intact records after the first bad one
  /// The numbers of the first write in the log, and of the one that has to follow the last intact record. Without any
  /// intact record neither is known.
  std::optional<uint64_t> first_sequence, next_sequence;

  WalVerdict verdict() const {
    if (following_records > 0) return WalVerdict::kDamaged;
    return intact_bytes < bytes ? WalVerdict::kTornTail : WalVerdict::kWhole;
  }
};

/// Takes a log block by block, so that it needs no more memory than one.
///
/// Behind a broken fragment nothing tells where the next one begins, since the broken one's length may be wrong: any
/// later byte may be its beginning, and its CRC says that it is. An old record, with numbers below those that have to
/// come, is not a record that follows: some file systems show what a block held before when the power goes. Types of
/// records that our options never let RocksDB write, of recycled or compressed logs, count as broken.
class WalCheck {
 public:
  /// REQUIRES: each block but the last one has kWalBlockBytes.
  void add(std::span<const std::byte> block);
  /// No other call may follow.
  WalReport finish();

 private:
  enum class Type : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
  struct Fragment {
    Type type;
    std::span<const std::byte> payload;
  };
  /// The beginning of a batch: sequence number and count of its writes.
  static constexpr size_t kBatchHeaderBytes = 12;

  static std::optional<Fragment> read_fragment(std::span<const std::byte> bytes);
  void take(const Fragment& fragment, uint64_t offset);
  void complete_record();
  /// Notes that the bytes at `offset` are not right, and neither is the record that had begun before it.
  void break_at(uint64_t offset);

  WalReport report_;
  std::optional<uint64_t> broken_at_;
  /// Where the record begins whose last fragment has not been read yet.
  std::optional<uint64_t> record_at_;
  std::array<std::byte, kBatchHeaderBytes> batch_header_;
  size_t batch_header_bytes_ = 0;
};

}  // namespace kintsugi::metaserver
