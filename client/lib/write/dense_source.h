/// A source with holes, as one without.
#pragma once

#include <vector>

#include "client/lib/io.h"
#include "common/proto/types.pb.h"

namespace kintsugi::client {

/// The data of a source, one range after the other, so that stripes hold nothing else. A source that has no holes
/// stays as it is, and one that cannot be read at any offset as well. What the source has grown by is data.
class DenseSource : public Source {
 public:
  /// `source` outlives it.
  explicit DenseSource(Source& source);

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override;
  std::optional<uint64_t> size() const override;

  /// The size of the file, when `packed` bytes were read of this.
  uint64_t file_size(uint64_t packed) const;
  /// Extents of what was read here, in order and without gaps, become those of the file.
  google::protobuf::RepeatedPtrField<proto::Extent> unpack(
      const google::protobuf::RepeatedPtrField<proto::Extent>& packed) const;

 private:
  struct Part {
    uint64_t packed = 0, begin = 0, length = 0;
  };
  /// The part that holds a packed offset. The last one has no end.
  size_t part_at(uint64_t packed) const;

  Source& source_;
  std::vector<Part> parts_;  ///< empty: the source has no holes
};

}  // namespace kintsugi::client
