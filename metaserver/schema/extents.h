/// What the content of a file is made of: extents, each a range of the file and the range of a stripe that holds it.
/// What lies between them is a hole. Extents are keys of their own, so that a file of any number of them is read and
/// changed by range.
///
/// A stripe counts the extents that name it, of whatever files, and is freed with the last one.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "common/proto/types.pb.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// As large as files may be: offsets are signed for applications.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 63) - 1;

/// The id that the keys of a file's extents begin with: it changes when all of its content is replaced.
inline InodeId content_of(InodeId id, const proto::StoredInode& inode) {
  return inode.content() != 0 ? InodeId{inode.content()} : id;
}

/// Whether the key is one of an extent. REQUIRES: it is not empty.
inline bool is_extent(std::string_view key) {
  return static_cast<keys::Kind>(key[0]) == keys::Kind::kExtent;
}

/// Visits the extents that end after `from`, in file order, until `visit` returns false. `stored_end`: none ends after
/// it, as far as the caller knows, as the size of the file says. The store skips removed keys one by one until it is
/// compacted: what was cut off behind that end needs not be passed over.
void scan_extents(const Reader& reader, InodeId content, uint64_t from,
                  const std::function<bool(const proto::Extent&)>& visit, uint64_t stored_end = UINT64_MAX);

/// The ranges of the file that extents, which are in order, hold without a gap: begin and end of each.
std::vector<std::pair<uint64_t, uint64_t>> runs_of(
    const google::protobuf::RepeatedPtrField<proto::Extent>& extents);

/// Between the begin of the first and the end of the last of these extents the file has them and nothing else. Those
/// at the ends may be parts. REQUIRES: there is one.
bool has_exactly(const Reader& reader, InodeId content,
                 const google::protobuf::RepeatedPtrField<proto::Extent>& expected);

/// How many there are, counted up to `at_most`.
size_t count_extents(const Reader& reader, InodeId content, size_t at_most);

/// Extents that one transaction changes of a file, at most, where an operation may be cut into several: the thread
/// that serves everybody is held up by each transaction for some milliseconds.
inline constexpr size_t kMaxExtentsAStep = 250;

/// Up to where a range can be changed so that at most `at_most` extents are concerned. More than `begin`, and `end` at
/// most.
/// REQUIRES: begin < end, at_most > 0.
struct StepEnd {
  uint64_t end = 0;
  size_t extents = 0;  ///< extents that touch the range from `begin` to `end`
};
StepEnd end_of_step(const Reader& reader, InodeId content, uint64_t begin, uint64_t end, size_t at_most,
                    uint64_t stored_end = UINT64_MAX);

/// Changes the extents of one file within a transaction. finish() must be called once, after the last change. At most
/// one at a time for a content or a stripe in a transaction: it sees its own changes, and none that others have made.
class ExtentWriter {
 public:
  /// `stored_end`: see scan_extents. `most`: after about so many changes it is full.
  ExtentWriter(Transaction& transaction, InodeId content, uint64_t stored_end = UINT64_MAX,
               size_t most = SIZE_MAX)
      : transaction_(transaction), content_(content), stored_end_(stored_end), most_(most) {}

  /// Puts an extent in place of whatever the range held; stripe 0: a hole. REQUIRES: it ends within kMaxFileBytes.
  void put(const proto::Extent& extent);
  /// Makes [begin, end) a hole.
  void clear(uint64_t begin, uint64_t end);
  /// Counts the references of all stripes concerned, frees those that nobody names any more, and adjusts the sizes in
  /// `inode`.
  void finish(proto::StoredInode& inode, FreedStripes& freed);
  /// There is more to change than it may: not all that was asked for is done, and the transaction is to be dropped.
  bool is_full() const { return changes_ > most_; }
  /// Stripes that finish() left with fewer bytes that somebody names, but with some.
  const std::vector<StripeId>& shrunken() const { return shrunken_; }

 private:
  struct References {
    int64_t extents = 0, bytes = 0;
  };
  void set(const proto::Extent& extent);
  void erase(const proto::Extent& extent);
  /// The extents that touch [begin, end), as they are now.
  std::vector<proto::Extent> touching(uint64_t begin, uint64_t end);
  /// Calls `visit` with the stored extents that touch [begin, end).
  void scan_stored(uint64_t begin, uint64_t end, const std::function<void(const proto::Extent&)>& visit);

  Transaction& transaction_;
  const InodeId content_;
  const uint64_t stored_end_;
  const size_t most_;
  size_t changes_ = 0;  ///< extents that were written, or that a write had to replace
  /// No stored extent touches this range: the last scan has passed over it. Many extents are mostly put one behind the
  /// other.
  uint64_t gap_begin_ = 0, gap_end_ = 0;
  /// Changed extents by their end offset; none: removed.
  std::map<uint64_t, std::optional<proto::Extent>> changed_;
  std::map<StripeId, References> references_;
  std::vector<StripeId> shrunken_;
};

}  // namespace kintsugi::metaserver
