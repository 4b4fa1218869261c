/// The RPCs that read files and make them of the stripes that a client has written: extents, stripes, uploads.
#pragma once

#include <optional>
#include <vector>

#include "common/rpc/server.h"
#include "metaserver/schema/extents.h"
#include "metaserver/service/meta_state.h"
#include "metaserver/service/names_service.h"

namespace kintsugi::metaserver {

inline constexpr int kMaxStripesOfOpenRead = 64;
inline constexpr int kMaxExtentsOfOpenRead = 4096;
inline constexpr uint64_t kMaxInlineBytesOfOpenRead = 256 << 10;  ///< then no further stripe is begun
inline constexpr int kMaxFilesOfWriteExtents = 1023;              ///< beside the first
inline constexpr int kMaxExtentsReplaced = 16'384;                ///< of one compaction
/// Extents of a file that a write puts or finds in the way, and writes of the store for all its files: beyond these it is done in steps.
inline constexpr size_t kMaxExtentsOfAWrite = 2 * kMaxExtentsAStep,
                        kMaxWritesOfAWrite = 20 * kMaxExtentsAStep;

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
    size_t most = SIZE_MAX;  ///< extents that may be changed
  };
  /// Has the same bytes lie elsewhere. kConflict: not all that `request` replaces is there any more.
  Status compact(Transaction& transaction, const proto::WriteExtentsRequest& request,
                 const std::vector<StripeId>& stripes, FreedStripes& freed);
  /// What a write found out and has done, beside its transaction.
  struct WriteEffects {
    std::vector<ChunkId> missing;
    FreedStripes freed;
    bool too_long = false;  ///< it is to be done in steps, and nothing of the transaction
  };
  /// kStale: the file is gone, or the session lost its lease.
  Status write_file(Transaction& transaction, const FileWrite& wanted, std::vector<StripeId> stripes,
                    WriteEffects& effects, proto::Attributes& attributes);
  /// Tells the compactions how the file's new extents lie, and what they left behind.
  void note_layout(const Transaction& transaction, const FileWrite& wanted,
                   const google::protobuf::RepeatedPtrField<proto::Extent>& extents,
                   const std::vector<StripeId>& shrunken);
  Status write(Transaction& transaction, const proto::WriteExtentsRequest& request,
               proto::WriteExtentsResponse& response, WriteEffects& effects);
  /// Attaches the stripes that a request brings along to its upload.
  asio::awaitable<Status> seal_brought(Context context, const proto::WriteExtentsRequest& request);
  /// The same of a request that concerns very many extents, in one transaction after the other (write_steps.h). Its stripes are attached
  /// to the upload until the last, so that none is lost when the steps end before it.
  asio::awaitable<Status> write_in_steps(Context context, const proto::WriteExtentsRequest& request,
                                         proto::WriteExtentsResponse& response);
  /// Tells the host what is to be repaired of stripes that were stored.
  void report_written(const proto::WriteExtentsRequest& request, const std::vector<ChunkId>& missing);
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
