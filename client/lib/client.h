/// The client library: what applications, the command line and the mount use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "client/lib/check/check_report.h"
#include "client/lib/files/open_files.h"
#include "client/lib/io.h"
#include "client/lib/meta_link.h"
#include "client/lib/options.h"
#include "client/lib/read/file_reader.h"
#include "client/lib/read/lost_chunk_read.h"
#include "client/lib/write/file_writer.h"
#include "common/base/status.h"
#include "common/proto/faults.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/secret.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::proto {
class DiagnoseRequest;  // sight.pb.h, which only who diagnoses needs
class DiagnoseResponse;
}  // namespace kintsugi::proto

namespace kintsugi::client {

/// One for a process is enough: any number of operations may run at once, within one bound on memory.
///
/// Operations are coroutines on the runtime's executor, like everything there; BlockingClient serves threads. Those
/// that may be repeated are, while the metaserver does not answer, for Options::retry_limit. Paths are absolute. Errors
/// carry the codes of Status: kNotFound, kAlreadyExists, kIsDirectory, ...
class Client {
 public:
  Client(const runtime::Runtime& runtime, Options options, rpc::Secret secret);
  ~Client();  ///< REQUIRES: stop() has ended

  // ---- files
  /// The file is durable on return; whatever fails or is interrupted leaves what was at the path before.
  asio::awaitable<Result<proto::Attributes>> write(std::string path, Source& source,
                                                   WriteOptions options = {});
  /// Hands the range to `sink` in order, and returns the file's attributes. All bytes are those of one file: kConflict when
  /// it was replaced after the first of them.
  asio::awaitable<Result<proto::Attributes>> read(std::string path, Sink& sink, ReadOptions options = {});
  /// Fills `into` from `offset` on, with fewer bytes only at the end of the file; returns how many.
  asio::awaitable<Result<size_t>> read_at(std::string path, uint64_t offset, std::span<std::byte> into);
  /// Reads a range of one chunk of a stripe as if that chunk were lost; the sink's offsets are those in the chunk.
  asio::awaitable<Result<DegradedReadReport>> read_lost_chunk(uint64_t stripe_id, uint32_t index, Sink& sink,
                                                              LostReadOptions options = {});

  /// Files that are open for reading and writing, with a session of their own. It ends before this client stops.
  std::unique_ptr<OpenFiles> open_files(FilesOptions options = {},
                                        std::unique_ptr<DirtyMemory> memory = nullptr,
                                        ChangeJournal* journal = nullptr, std::span<std::byte> name_log = {},
                                        std::span<std::byte> own_locks = {});

  /// The root of work that goes on beside the operations below: recorded as theirs are.
  Context context() const;

  // ---- namespace
  asio::awaitable<Result<proto::Attributes>> stat(std::string path);
  /// Lists one page: entries whose names are greater than `after`.
  asio::awaitable<Result<proto::ListResponse>> list(std::string path, std::string after = "",
                                                    uint32_t limit = 0);
  asio::awaitable<Status> make_directory(std::string path, bool parents, uint32_t mode = 0755);
  asio::awaitable<Status> remove(std::string path, bool recursive);
  asio::awaitable<Status> rename(std::string from, std::string to, bool replace);
  /// Lists extents and stripes of a file, all pages put together.
  asio::awaitable<Result<proto::OpenReadResponse>> extents(std::string path);

  asio::awaitable<Result<proto::ListPoliciesResponse>> list_policies();
  asio::awaitable<Result<proto::GetPolicyResponse>> get_policy(std::string path);
  asio::awaitable<Status> set_policy(std::string path, std::string policy);

  asio::awaitable<Result<proto::DiskUsageResponse>> disk_usage(std::string path);
  /// `within`: it is a part of that work.
  asio::awaitable<Result<proto::DiskFreeResponse>> disk_free(std::optional<Context> within = {});

  // ---- quotas, snapshots, trash of directories
  /// Without limits: the directory has no quota any more.
  asio::awaitable<Status> set_quota(std::string path, std::optional<uint64_t> max_bytes,
                                    std::optional<uint64_t> max_files);
  /// Those that limit what is at a path, the nearest first; those that limit what is at an inode (`within`: as a part of that work).
  asio::awaitable<Result<proto::GetQuotasResponse>> quotas_at(std::string path);
  asio::awaitable<Result<proto::GetQuotasResponse>> quotas_of(uint64_t inode,
                                                              std::optional<Context> within = {});
  /// One page of all: continue after its last directory while `more`.
  asio::awaitable<Result<proto::ListQuotasResponse>> list_quotas(uint64_t after = 0);

  /// Everything below the directory as it is now can be read below PATH/.snapshots/NAME until the snapshot is deleted.
  asio::awaitable<Status> create_snapshot(std::string path, std::string name);
  asio::awaitable<Status> delete_snapshot(std::string path, std::string name);
  /// Those of a directory, or of all when `path` is empty; the oldest first.
  asio::awaitable<Result<proto::ListSnapshotsResponse>> list_snapshots(std::string path = "");

  /// What is removed below the directory can be restored for so long; zero: it is gone at once.
  asio::awaitable<Status> set_trash(std::string path, Duration retention);
  /// One page of what lies in the trash of the nearest directory that has one: continue after its last entry while `more`.
  asio::awaitable<Result<proto::ListTrashResponse>> list_trash(std::string path, std::string after = "");
  /// Moves an entry of the trash to where it was, or to `to`; returns where it is now, or no path when the call had to be repeated
  /// and the entry is where it was.
  asio::awaitable<Result<proto::RestoreTrashResponse>> restore_trash(std::string path, std::string entry,
                                                                     std::string to = "");
  /// Removes one entry, or all when it is empty.
  asio::awaitable<Status> empty_trash(std::string path, std::string entry = "");

  // ---- cluster
  asio::awaitable<Result<proto::ListServersResponse>> list_servers();
  /// Has the server's chunks moved away, or no longer; list_servers shows how many are left.
  asio::awaitable<Status> drain_server(uint64_t server_id, bool drain);
  /// Forgets a server that is dead or drained: an error while something is still on it.
  asio::awaitable<Status> remove_server(uint64_t server_id);
  asio::awaitable<Result<proto::ShowStripeResponse>> show_stripe(uint64_t stripe_id);
  /// Checks one page of files by what the metaserver knows, the first one or that which follows `before`: go on while `more`.
  asio::awaitable<Result<proto::FsckResponse>> fsck(std::string path, const proto::FsckResponse& before = {});
  /// Has every chunk below `path` read on its server, parity too, and waits until what is damaged is repaired. Errors
  /// are those of the metaserver; what servers fail at is in the report.
  asio::awaitable<Result<DeepCheckReport>> deep_check(std::string path, DeepCheckOptions options = {});
  /// Tells whether the metadata is older than chunks beside it, and how many chunks are in quarantine.
  asio::awaitable<Result<proto::MetadataStatusResponse>> metadata_status();
  /// Goes on with metadata that is in doubt. kNotFound: it is not.
  asio::awaitable<Status> accept_metadata();
  /// One page of the quarantine: continue after its last chunk while `more`.
  asio::awaitable<Result<proto::ListQuarantineResponse>> list_quarantine(
      proto::ListQuarantineRequest request);
  asio::awaitable<Result<proto::ChangeQuarantineResponse>> change_quarantine(
      proto::ChangeQuarantineRequest::Change change, uint64_t stripe_id);
  asio::awaitable<Result<proto::RepairStatusResponse>> repair_status();
  asio::awaitable<Result<proto::RepairHistoryResponse>> repair_history(uint32_t limit);
  /// Runs one repair, and returns when it has ended, with its record and the names of its servers.
  asio::awaitable<Result<proto::RunRepairResponse>> run_repair(proto::RunRepairRequest request);

  /// Asks the monitor what is stuck or slow. Without one, or when it does not answer, the metaserver says in its place what
  /// heartbeats tell (DiagnoseResponse::reduced). `known_monitor` is asked when the metaserver cannot say where the monitor is,
  /// as when it is the one that hangs. kUnavailable: nobody answers.
  asio::awaitable<Result<proto::DiagnoseResponse>> diagnose(
      proto::DiagnoseRequest request, std::optional<runtime::Endpoint> known_monitor = {});
  /// Has the daemon at `at` make faults, or end them; none: the metaserver. kInvalidArgument: also when it was built without fault points.
  asio::awaitable<Result<proto::ChangeFaultsResponse>> change_faults(std::optional<runtime::Endpoint> at,
                                                                     proto::ChangeFaultsRequest request);

  /// Every operation that is under way ends soon, and every later one at once, with kCancelled or with an error that says
  /// how the cancellation met it. A write that had begun gives its upload up first, so that its space is free soon. Waited
  /// for are only what the caller must end, its sources and sinks, and connections that are being made.
  void cancel();
  /// Ends the background tasks. REQUIRES: no operation is pending.
  asio::awaitable<void> stop();

 private:
  using Message = google::protobuf::MessageLite;

  /// Whoever looks for the cause of a hang does not wait for long.
  static constexpr Duration kDiagnoseLimit = std::chrono::seconds(2);

  /// Calls the metaserver. It owns the request, so that the functions that fill one need not be coroutines.
  template <class Response>
  asio::awaitable<Result<Response>> ask(rpc::Method method, std::unique_ptr<const Message> request,
                                        Repeat repeat = Repeat::kAllowed,
                                        Duration limit = MetaLink::kCallLimit,
                                        std::optional<Context> within = {});
  /// Makes a call whose response holds nothing but the outcome.
  asio::awaitable<Status> tell(rpc::Method method, std::unique_ptr<const Message> request,
                               Repeat repeat = Repeat::kAllowed, Duration limit = MetaLink::kCallLimit);

  /// Says in a request for whom it is made, and gives a change the number by which the metaserver knows it when it comes again.
  template <class Request>
  void sign(Request& request);
  template <class Request>
  std::unique_ptr<Request> request_for(std::string path);

  std::unique_ptr<Resources> resources_;
  uint64_t session_ = 0;      ///< for changes by path: it holds nothing at the metaserver
  uint64_t last_change_ = 0;  ///< the number of one
};

}  // namespace kintsugi::client
