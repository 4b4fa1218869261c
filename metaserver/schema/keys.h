/// The one ordered key space of all metadata. A key is a kind byte, then big-endian ids, so that scans run in the order
/// of the ids; names come last.
#pragma once

#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace kintsugi::metaserver::keys {

/// The first byte of every key. Kinds are stored, so one is never changed or used again; 'E' has been used.
enum class Kind : char {
  kCluster = 'M',
  kCounter = 'N',  ///< name -> StoredCounter
  kTotals = 'A',   ///< StoredTotals
  kInode = 'I',    ///< inode -> StoredInode
  /// Content, end in the file -> StoredExtent. The first one after an offset contains the offset or follows it.
  kExtent = 'F',
  kXattr = 'Y',         ///< inode, name -> the extended attribute's value
  kChange = 'K',        ///< session, slot -> StoredChange
  kRequest = 'a',       ///< slot -> proto::Change: a recent change by path that was carried out
  kEntry = 'D',         ///< parent, name -> StoredDirectoryEntry
  kOrphan = 'O',        ///< inode -> kHeld or nothing: an unlinked inode that is still to be reclaimed
  kStripe = 'S',        ///< stripe -> StoredStripe
  kServerChunk = 'C',   ///< server, stripe, index -> nothing; server 0: the chunk is on no server
  kServer = 'V',        ///< server -> StoredServer
  kUpload = 'U',        ///< upload -> StoredUpload
  kUploadStripe = 'T',  ///< upload, stripe -> nothing: a sealed stripe that is not part of a file yet
  kGarbage = 'G',       ///< server, stripe, index -> nothing: a chunk that the server must delete
  kPolicy = 'P',        ///< name -> nothing: a known policy
  kEpoch = 'H',         ///< number -> StoredEpoch: a start of a metaserver
  kAbandoned = 'B',     ///< epoch -> nothing: an epoch of another history that an operator gave up
  kDoubt = 'X',         ///< proto::MetadataDoubt
  kQuarantine = 'Q',    ///< server, stripe, index -> StoredQuarantine
  kQuota = 'L',         ///< directory -> StoredQuota
  /// Directory -> the name up to which its contents are counted for the directory's quota.
  kUnmarked = 'J',
  kSnapshot = 'Z',  ///< number -> StoredSnapshot
  kSaved = 'W',     ///< key, number of a snapshot -> what the key had when the snapshot was made
  kSavedFor = 'R',  ///< number of a snapshot, key -> nothing: that snapshot has a value saved under the key
  kTrash = 'c',     ///< directory -> StoredTrash
  kTrashed = 'd',   ///< directory of the trash, name in it -> StoredTrashed
  kToken = 'e',     ///< id -> StoredToken
};

/// Chunks are numbered by one byte of a key. REQUIRES of all functions below: no larger index.
inline constexpr uint32_t kMaxIndex = 255;

std::string cluster();
std::string totals();
std::string counter(std::string_view name);
std::string policy(std::string_view name);

std::string inode(InodeId id);
std::string extent(InodeId content, uint64_t end);
std::string xattr(InodeId id, std::string_view name);
std::string change(uint64_t session, uint64_t slot);
std::string request(uint64_t slot);
std::string orphan(InodeId id);
std::string entry(InodeId parent, std::string_view name);
std::string stripe(StripeId id);
std::string server(ServerId id);
std::string server_chunk(ServerId server, ChunkId chunk);
std::string garbage(ServerId server, ChunkId chunk);
std::string upload(UploadId id);
std::string epoch(uint64_t number);
std::string abandoned(uint64_t epoch);
std::string doubt();
std::string quarantine(ServerId server, ChunkId chunk);
std::string upload_stripe(UploadId upload, StripeId stripe);
std::string quota(InodeId directory);
std::string unmarked(InodeId directory);
std::string snapshot(uint64_t number);
std::string trash(InodeId directory);
std::string trashed(InodeId directory, std::string_view name);
std::string token(uint64_t id);

/// A half-open range of keys.
struct Range {
  std::string begin, end;
};
Range all(Kind kind);
Range all(Kind kind, uint64_t first_id);
/// The entries of a directory whose names are greater than `after`.
Range entries(InodeId parent, std::string_view after = {});

/// The extents that end after `offset`.
Range extents_after(InodeId content, uint64_t offset);

/// Where the value is that a key had when a snapshot was made. Nothing else makes or reads keys of the kinds kSaved and
/// kSavedFor: a number follows a name there, so a range must not take the rest of a longer name for a number.
struct SavedKey {
  /// Numbers of snapshots begin with a zero byte, and no name holds one. So the values of one key lie together, before
  /// those of all keys that begin with it.
  static constexpr uint64_t kEnd = (uint64_t{1} << 56) - 1;  ///< all snapshot numbers are smaller

  std::string key;
  uint64_t number = 0;  ///< number of the snapshot

  std::string value() const;   ///< the key under which the value is saved (kSaved)
  std::string listed() const;  ///< the key that lists it for the snapshot (kSavedFor)

  /// REQUIRES: a key of that kind.
  static SavedKey of_value(std::string_view stored);
  static SavedKey of_listed(std::string_view stored);

  /// The values of one key for the snapshots from `first` on, but before `end`.
  static Range values_of(std::string_view key, uint64_t first, uint64_t end = kEnd);
  /// The values of all keys in a range, and of some keys before it that begin its first one: compare the keys.
  static Range values_in(const Range& range);
  /// What is listed for one snapshot.
  static Range listed_for(uint64_t number);

  bool operator==(const SavedKey&) const = default;
};
std::string_view name_of_trashed(std::string_view key);

std::string_view name_of_entry(std::string_view key);
std::string_view name_of_xattr(std::string_view key);
uint64_t end_of_extent(std::string_view key);
/// The first id of any key that starts with one.
uint64_t first_id(std::string_view key);
ChunkId chunk_of(std::string_view key);           ///< REQUIRES: a server_chunk, garbage or quarantine key
StripeId stripe_of_upload(std::string_view key);  ///< REQUIRES: an upload_stripe key
std::string_view text_of(std::string_view key);   ///< REQUIRES: a counter or policy key

}  // namespace kintsugi::metaserver::keys
