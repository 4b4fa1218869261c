/// The RPCs that change the bytes of files: extents of stripes that a client has written, holes, copies, and what lies
/// elsewhere after a compaction.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/file_writer.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/names_service.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/write_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxFilesOfWriteExtents = 1023;  ///< files of one call in addition to the first
/// Extents of a file that a write puts or finds in the way, and writes of the store for all its files: beyond these it
/// is done in steps.
inline constexpr size_t kMaxExtentsOfAWrite = 2 * kMaxExtentsAStep,
                        kMaxWritesOfAWrite = 20 * kMaxExtentsAStep;

/// One function for each RPC. References outlive it.
class WriteService {
 public:
  WriteService(MetaStore& store, NamespaceParts& names, Clients& clients, WriteParts& writes,
               FileWriter& writer, NamesService& names_service)
      : store_(store),
        names_(names),
        clients_(clients),
        writes_(writes),
        writer_(writer),
        names_service_(names_service) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> write_extents(Context context, const proto::WriteExtentsRequest& request,
                                        proto::WriteExtentsResponse& response);
  asio::awaitable<Status> copy_extents(Context context, const proto::CopyExtentsRequest& request,
                                       proto::CopyExtentsResponse& response);

  /// Answers a repeated write that was carried out before: how the files are now.
  asio::awaitable<Status> answer_repeated(Context context, const proto::WriteExtentsRequest& request,
                                          proto::WriteExtentsResponse& response);
  Status write(Transaction& transaction, const proto::WriteExtentsRequest& request,
               proto::WriteExtentsResponse& response, WriteEffects& effects);
  /// Attaches the sealed stripes of the request to its upload, so that they survive between steps. A call that this one
  /// repeats may still run; then it has attached them.
  asio::awaitable<Status> seal_brought(Context context, const proto::WriteExtentsRequest& request);
  /// Carries out a request that concerns very many extents, in one transaction after the other (write_steps.h). Its
  /// stripes are attached to the upload until the last, so that none is lost when the steps end before it.
  asio::awaitable<Status> write_in_steps(Context context, const proto::WriteExtentsRequest& request,
                                         proto::WriteExtentsResponse& response);
  Status copy(Transaction& transaction, const proto::CopyExtentsRequest& request,
              proto::CopyExtentsResponse& response, FreedStripes& freed);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  WriteParts& writes_;
  FileWriter& writer_;
  NamesService& names_service_;
};

}  // namespace kintsugi::metaserver
