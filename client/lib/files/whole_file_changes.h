/// Changes of one file as a whole: its attributes, its size, holes, what it shares with another file.
#pragma once

#include <cstdint>

#include "client/lib/files/change_turns.h"
#include "client/lib/files/file_owner.h"
#include "client/lib/files/open_file.h"
#include "client/lib/files/write_back.h"

namespace kintsugi::client {

/// Changes that concern written data are exclusive (ChangeTurns): they begin once no layer is under way, and
/// nothing is written out beside them.
class WholeFileChanges {
 public:
  WholeFileChanges(FilesShared& shared, FileOwner& owner, FileAttributes& attributes, StoredReader& reader,
                   WriteBack& write_back, ChangeTurns& turns)
      : shared_(shared),
        owner_(owner),
        attributes_(attributes),
        reader_(reader),
        write_back_(write_back),
        turns_(turns) {}

  /// As OpenFile has them.
  asio::awaitable<Result<proto::Attributes>> set_attributes(Context context,
                                                            proto::SetAttributesRequest request);
  asio::awaitable<Status> allocate(Context context, AllocateMode mode, uint64_t offset, uint64_t length);
  /// Copies from a file whose attributes, and what is not written out of it, are `from`'s. REQUIRES: that was written
  /// out before.
  asio::awaitable<Result<uint64_t>> copy_range(Context context, const WriteBack& from, uint64_t from_offset,
                                               uint64_t to_offset, uint64_t length);

  /// A call is under way that changes attributes and is not exclusive.
  bool under_way() const { return under_way_ > 0; }

  /// Waits until nothing of the file is under way. Nothing is begun then before end_exclusive(), which follows.
  asio::awaitable<void> begin_exclusive(Context context);
  void end_exclusive();

 private:
  asio::awaitable<Result<proto::Attributes>> set_beside_writes(Context context,
                                                               proto::SetAttributesRequest request);
  asio::awaitable<Status> set_exclusively(Context context, proto::SetAttributesRequest& request,
                                          proto::Attributes& result);
  asio::awaitable<Status> extend(Context context, uint64_t size);
  asio::awaitable<Status> make_hole(Context context, AllocateMode mode, uint64_t offset, uint64_t length);
  asio::awaitable<Result<uint64_t>> copy_into(Context context, const WriteBack& from, uint64_t from_offset,
                                              uint64_t to_offset, uint64_t length);

  FilesShared& shared_;
  FileOwner& owner_;
  FileAttributes& attributes_;
  StoredReader& reader_;
  WriteBack& write_back_;
  ChangeTurns& turns_;
  size_t under_way_ = 0;
};

}  // namespace kintsugi::client
