/// Writes dirty ranges of a file to stripes: all of them, one after the other, are the content of one stripe or several.
#pragma once

#include <optional>

#include "client/lib/files/dirty_ranges.h"
#include "client/lib/resources.h"
#include "client/lib/write/striped_writer.h"
#include "client/lib/write/upload.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// The bytes of ranges, packed: without the gaps between them.
class PackedSource : public Source {
 public:
  /// `ranges` outlives the source and does not change.
  explicit PackedSource(const DirtyRanges& ranges);
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override { return bytes_; }

 private:
  struct Piece {
    uint64_t begin = 0;  ///< in the packed bytes
    std::span<const std::byte> bytes;
  };
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
};

/// Where ranges of a file lie, given where their packed bytes do (`packed`, in order and without gaps; their offsets are those in the packed bytes).
void add_file_extents(const std::vector<ByteRange>& ranges,
                      const google::protobuf::RepeatedPtrField<proto::Extent>& packed,
                      google::protobuf::RepeatedPtrField<proto::Extent>& extents);

/// Use once. At most one cell of bytes goes to copies, everything else to stripes of the file's policy.
class LayerUpload {
 public:
  /// `ranges`, not empty, outlive this and do not change.
  LayerUpload(Resources& resources, Context context, uint64_t inode, const DirtyRanges& ranges);

  /// Ok: the bytes are durable on chunkservers, and `request` says so to WriteExtents.
  asio::awaitable<Status> run(proto::WriteExtentsRequest& request);
  uint64_t stripes() const { return stripes_; }
  /// After anything went wrong: the stripes are given up.
  asio::awaitable<void> abort() { return upload_.abort(context_); }

 private:
  Resources& resources_;
  const Context context_;
  const uint64_t inode_;
  const DirtyRanges& ranges_;
  PackedSource source_;
  Upload upload_;
  uint64_t stripes_ = 0;
};

}  // namespace kintsugi::client
