/// Writes dirty ranges of one file or of several to stripes: all of them, one after the other, are the content of one
/// stripe or several.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/dirty/dirty_ranges.h"
#include "client/lib/resources.h"
#include "client/lib/write/packed_extents.h"
#include "client/lib/write/striped_writer.h"
#include "client/lib/write/upload.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// The bytes of ranges, packed: without the gaps between them.
class PackedSource : public Source {
 public:
  /// Puts ranges behind those that are there. They outlive the source and do not change.
  void add(const DirtyRanges& ranges);
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override { return bytes_; }

 private:
  struct Piece {
    uint64_t begin = 0;  ///< offset in the packed bytes
    std::span<const std::byte> bytes;
  };
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

/// What is to be written out of one file.
struct UploadMember {
  uint64_t inode = 0;
  std::string policy;                   ///< the file's policy; empty: not known here
  std::shared_ptr<const void> owner;    ///< keeps what follows alive
  const DirtyRanges* ranges = nullptr;  ///< ranges to write: never empty, and unchanged during the upload
  const bool* discarded = nullptr;      ///< whether nothing of the file is to be written any more
};

/// The bytes of the members are few enough for the metaserver to keep them itself, and their pieces for one call.
bool fits_inline(const std::vector<UploadMember>& members);
/// A call that brings the bytes of the members that were not discarded, whose places in `members` are in `told`.
proto::WriteExtentsRequest inline_request(const std::vector<UploadMember>& members,
                                          std::vector<size_t>& told);

/// Use once. At most one cell of bytes goes to copies, everything else to stripes of the policy.
class GroupUpload {
 public:
  /// All members have the same policy; one whose policy is not known is alone. `prepared`, if there is one, is an
  /// upload for copies of that policy, and takes at most a cell.
  GroupUpload(Resources& resources, Context context, std::vector<UploadMember> members,
              std::unique_ptr<Upload> prepared = nullptr);
  /// One that allocates its stripe already, for at most a cell. `inode`: a file that this client may write.
  static std::unique_ptr<Upload> prepare(Resources& resources, Context context, const erasure::Policy& policy,
                                         uint64_t inode);

  /// Ok: the bytes are durable on chunkservers.
  asio::awaitable<Status> run();
  /// The request that tells the metaserver of it afterwards. It has the members that were not discarded meanwhile;
  /// `told` gets their places in `members`.
  proto::WriteExtentsRequest request(std::vector<size_t>& told);
  uint64_t stripes() const { return static_cast<uint64_t>(packed_.extents_size()); }
  /// After anything went wrong, or nothing was told: the stripes are given up.
  asio::awaitable<void> abort() { return upload_->abort(context_); }

 private:
  Resources& resources_;
  const Context context_;
  const std::vector<UploadMember> members_;
  PackedSource source_;
  const std::unique_ptr<Upload> upload_;
  std::optional<StripedWriter> writer_;
  proto::OpenReadResponse packed_;
};

}  // namespace kintsugi::client
