/// How a WriteExtents that concerns very many extents is cut into steps, each of which is one transaction of bounded
/// size.
///
/// A step is a prefix of what is written to one of the files: whoever reads meanwhile, or after a crash, sees the
/// first part of the write and behind it what was there before, as of any write that is not done yet. The last step
/// carries the change out.
#pragma once

#include <cstdint>

#include "common/proto/inode.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class WriteSteps {
 public:
  /// `request` outlives it.
  explicit WriteSteps(const proto::WriteExtentsRequest& request) : request_(request) {}

  /// Returns true if all files have been written.
  bool done() const { return file_ > request_.more_size(); }
  int file() const { return file_; }  ///< index of the request's file; 0: the first
  uint64_t inode() const { return file_ == 0 ? request_.inode() : request_.more(file_ - 1).inode(); }

  /// Returns the next step, as a request that writes a part to that file alone; without what concerns all files.
  proto::FileExtents next(const Reader& reader);
  /// Returns true if the step that next() returned last was the last one of its file.
  bool ends_file() const { return extent_ == extents().size(); }
  /// Notes that the step was carried out, or `failed`: then the rest of its file is left out.
  void written(bool failed);

 private:
  const google::protobuf::RepeatedPtrField<proto::Extent>& extents() const {
    return file_ == 0 ? request_.extents() : request_.more(file_ - 1).extents();
  }

  const proto::WriteExtentsRequest& request_;
  int file_ = 0, extent_ = 0;
  uint64_t written_ = 0;  ///< bytes of extent `extent_` that are written
};

}  // namespace kintsugi::metaserver
