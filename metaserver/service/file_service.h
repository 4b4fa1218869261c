/// The RPCs that read files and make them of the stripes that a client has written: extents, stripes, uploads.
#pragma once

#include <optional>
#include <vector>

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"
#include "metaserver/service/names_service.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxStripesOfOpenRead = 64;
inline constexpr int kMaxExtentsOfOpenRead = 4096;
inline constexpr uint64_t kMaxInlineBytesOfOpenRead = 256 << 10;  ///< then no further stripe is begun
inline constexpr int kMaxFilesOfWriteExtents = 1023;              ///< beside the first
inline constexpr int kMaxExtentsReplaced = 16'384;                ///< of one compaction

/// One function for each RPC. `state` must outlive it.
class FileService {
 public:
  FileService(MetaState& state, NamesService& names) : state_(state), names_(names) {}
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
  asio::awaitable<Status> write_extents(Context context, const proto::WriteExtentsRequest& request,
                                        proto::WriteExtentsResponse& response);
  asio::awaitable<Status> copy_extents(Context context, const proto::CopyExtentsRequest& request,
                                       proto::CopyExtentsResponse& response);
  asio::awaitable<Status> keep_upload(Context context, const proto::KeepUploadRequest& request,
                                      Empty& response);
  asio::awaitable<Status> abort_upload(Context context, const proto::AbortUploadRequest& request,
                                       Empty& response);

  /// The file that a repeated commit has made already.
  std::optional<proto::Attributes> committed_before(const proto::CommitFileRequest& request) const;
  Result<proto::Attributes> commit(Transaction& transaction, const proto::CommitFileRequest& request,
                                   std::vector<ChunkId>& missing, FreedStripes& freed);
  /// New extents of one file.
  struct FileWrite {
    InodeId inode;
    uint64_t session = 0;
    const google::protobuf::RepeatedPtrField<proto::Extent>& extents;
    uint64_t size_at_least = 0;
    int64_t modified_ns = 0;
    bool keep_times = false, kill_privileges = false;
    std::string_view inline_data;  ///< not empty: the bytes of the extents, which name no stripe
    uint32_t inline_crc = 0;
  };
  /// Has the same bytes lie elsewhere. kConflict: not all that `request` replaces is there any more.
  Status compact(Transaction& transaction, const proto::WriteExtentsRequest& request,
                 const std::vector<StripeId>& stripes, FreedStripes& freed);
  /// kStale: the file is gone, or the session lost its lease.
  Status write_file(Transaction& transaction, const FileWrite& wanted, std::vector<StripeId> stripes,
                    FreedStripes& freed, proto::Attributes& attributes);
  /// Tells the compactions how the file's new extents lie, and what they left behind.
  void note_layout(const Transaction& transaction, const FileWrite& wanted,
                   const google::protobuf::RepeatedPtrField<proto::Extent>& extents,
                   const std::vector<StripeId>& shrunken);
  Status write(Transaction& transaction, const proto::WriteExtentsRequest& request,
               proto::WriteExtentsResponse& response, std::vector<ChunkId>& missing, FreedStripes& freed);
  Status copy(Transaction& transaction, const proto::CopyExtentsRequest& request,
              proto::CopyExtentsResponse& response, FreedStripes& freed);
  void report_missing(const std::vector<ChunkId>& missing);
  /// Reports chunks whose server died while their stripe was being written: what the metadata placed on it was told as
  /// lost at its death, and did not include them yet.
  void report_unreachable(const proto::SealedStripe& sealed);
  void note_placed(const proto::SealedStripe& sealed);

  MetaState& state_;
  NamesService& names_;
};

}  // namespace kintsugi::metaserver
