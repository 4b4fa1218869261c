/// The RPCs that read files and make them of the stripes that a client has written: extents, stripes, uploads.
#pragma once

#include <optional>
#include <vector>

#include "common/rpc/server.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/cluster/slow_servers.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/stripe_describer.h"
#include "metaserver/service/write_parts.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxStripesOfOpenRead = 64;
inline constexpr int kMaxExtentsOfOpenRead = 4096;
/// Once an answer has so many bytes, no further stripe is added to it.
inline constexpr uint64_t kMaxInlineBytesOfOpenRead = 256 << 10;

/// One function for each RPC. References outlive it.
class FileService {
 public:
  FileService(MetaStore& store, NamespaceParts& names, WriteParts& writes, Garbage& garbage,
              const SlowServers& slow, const StripeDescriber& describer)
      : store_(store),
        names_(names),
        writes_(writes),
        garbage_(garbage),
        slow_(slow),
        describer_(describer) {}
  void register_on(rpc::Server& server);

  /// Where the range lies, as it is now.
  Status read_extents(const proto::OpenReadRequest& request, proto::OpenReadResponse& response) const;

 private:
  using Empty = proto::Empty;
  asio::awaitable<Status> open_read(Context context, const proto::OpenReadRequest& request,
                                    proto::OpenReadResponse& response);
  asio::awaitable<Status> seal_stripe(Context context, const proto::SealStripeRequest& request,
                                      Empty& response);
  asio::awaitable<Status> commit_file(Context context, const proto::CommitFileRequest& request,
                                      proto::CommitFileResponse& response);
  asio::awaitable<Status> keep_upload(Context context, const proto::KeepUploadRequest& request,
                                      Empty& response);
  asio::awaitable<Status> abort_upload(Context context, const proto::AbortUploadRequest& request,
                                       Empty& response);

  /// The file that a repeated commit has made already.
  std::optional<proto::Attributes> committed_before(const proto::CommitFileRequest& request) const;
  Result<proto::Attributes> commit(Transaction& transaction, const proto::CommitFileRequest& request,
                                   std::vector<ChunkId>& missing, FreedStripes& freed);

  MetaStore& store_;
  NamespaceParts& names_;
  WriteParts& writes_;
  Garbage& garbage_;
  const SlowServers& slow_;
  const StripeDescriber& describer_;
};

}  // namespace kintsugi::metaserver
