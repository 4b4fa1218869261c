/// The RPCs that read and write files: extents, stripes, uploads.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/core.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxStripesOfOpenRead = 64;

/// One function for each RPC. `core` must outlive it.
class FileService {
 public:
  explicit FileService(Core& core) : core_(core) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Result<proto::OpenReadResponse>> open_read(Context context, proto::OpenReadRequest request);
  asio::awaitable<Result<proto::AllocateStripeResponse>> allocate_stripe(
      Context context, proto::AllocateStripeRequest request);
  asio::awaitable<Result<proto::ReplaceChunkResponse>> replace_chunk(Context context,
                                                                     proto::ReplaceChunkRequest request);
  asio::awaitable<Result<proto::Empty>> seal_stripe(Context context, proto::SealStripeRequest request);
  asio::awaitable<Result<proto::CommitFileResponse>> commit_file(Context context,
                                                                 proto::CommitFileRequest request);
  asio::awaitable<Result<proto::Empty>> abort_upload(Context context, proto::AbortUploadRequest request);

  Result<proto::OpenReadResponse> read_extents(const proto::OpenReadRequest& request) const;
  Result<proto::AllocateStripeResponse> allocate(const proto::AllocateStripeRequest& request);
  Result<proto::ReplaceChunkResponse> replace(const proto::ReplaceChunkRequest& request);
  /// The file that a repeated commit has made already.
  std::optional<proto::Attributes> committed_before(const proto::CommitFileRequest& request) const;
  Result<proto::Attributes> commit(Transaction& transaction, const proto::CommitFileRequest& request,
                                   std::vector<ChunkId>& missing, FreedStripes& freed);
  void report_missing(const std::vector<ChunkId>& missing);
  /// Chunks whose server died while the stripe was being written: what was on it was told as lost without
  /// them.
  void report_unreachable(const proto::SealedStripe& sealed);
  void note_placed(const proto::SealedStripe& sealed);

  Core& core_;
};

}  // namespace kintsugi::metaserver
