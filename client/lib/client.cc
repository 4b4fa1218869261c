#include "client/lib/client.h"

#include <algorithm>

#include "client/lib/check/deep_check.h"
#include "client/lib/fsck_pages.h"
#include "client/lib/resources.h"
#include "common/base/assert.h"
#include "common/proto/sight.pb.h"
#include "common/proto/verdicts.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kRead{"client.read"};
constexpr int kMaxReadAttempts = 4;  ///< of a file that others replace all the time

}  // namespace

using rpc::Method;

Client::Client(const runtime::Runtime& runtime, Options options, rpc::Secret secret) {
  KINTSUGI_ASSERT(options.memory_bytes >= kMinMemoryBytes);
  resources_ = std::make_unique<Resources>(runtime, std::move(options), secret);
  session_ = resources_->runtime.random.next() | 1;
}

Client::~Client() = default;

Context Client::context() const {
  return resources_->context();
}

asio::awaitable<Result<proto::ChangeFaultsResponse>> Client::change_faults(
    std::optional<runtime::Endpoint> at, proto::ChangeFaultsRequest request) {
  proto::ChangeFaultsResponse response;
  const Context limited = context().with_deadline(resources_->now() + MetaLink::kCallLimit);
  KINTSUGI_CO_TRY(co_await resources_->rpc.call(limited, at.value_or(resources_->options.metaserver),
                                                Method::kChangeFaults, request, response));
  co_return response;
}

void Client::cancel() {
  if (resources_->background.stopping()) return;
  // Waits between attempts end, and with the connections all streams and calls.
  resources_->background.request_stop();
  resources_->background.spawn(resources_->rpc.stop());
}

asio::awaitable<void> Client::stop() {
  cancel();
  co_await resources_->background.join();
}

template <class Request>
void Client::sign(Request& request) {
  if constexpr (requires { request.mutable_caller(); }) resources_->sign(request);
  if constexpr (requires { request.mutable_change(); }) {
    request.mutable_change()->set_session(session_);
    request.mutable_change()->set_number(++last_change_);
  }
}

template <class Request>
std::unique_ptr<Request> Client::request_for(std::string path) {
  auto request = std::make_unique<Request>();
  request->set_path(std::move(path));
  sign(*request);
  return request;
}

template <class Response>
asio::awaitable<Result<Response>> Client::ask(Method method, std::unique_ptr<const Message> request,
                                              Repeat repeat, Duration limit, std::optional<Context> within) {
  Response response;
  KINTSUGI_CO_TRY(
      co_await resources_->meta.call(within.value_or(context()), method, *request, response, repeat, limit));
  co_return response;
}

asio::awaitable<Status> Client::tell(Method method, std::unique_ptr<const Message> request, Repeat repeat,
                                     Duration limit) {
  proto::Empty nothing;
  co_return co_await resources_->meta.call(context(), method, *request, nothing, repeat, limit);
}

// ---- files

asio::awaitable<Result<proto::Attributes>> Client::write(std::string path, Source& source,
                                                         WriteOptions options) {
  FileWriter writer(*resources_, context(), std::move(path), source, std::move(options));
  proto::Attributes written;
  KINTSUGI_CO_TRY(co_await writer.run(written));
  co_return written;
}

asio::awaitable<Result<proto::Attributes>> Client::read(std::string path, Sink& sink, ReadOptions options) {
  sight::Task task(context(), kRead);
  Status status;
  for (int attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    FileReader reader(*resources_, task.context(), {.path = path}, sink, options);
    proto::Attributes attributes;
    KINTSUGI_CO_TRY(task.finish(co_await reader.open(attributes)));
    status = co_await reader.run();
    if (status.ok()) co_return attributes;
    // The sink has nothing yet of a file that was replaced: it may have all of the one that took its place.
    if (status.code() != Code::kConflict || reader.delivered()) break;
  }
  co_return task.finish(std::move(status));
}

asio::awaitable<Result<size_t>> Client::read_at(std::string path, uint64_t offset,
                                                std::span<std::byte> into) {
  if (into.empty()) co_return size_t{0};
  MemorySink sink(into);
  const auto attributes = co_await read(std::move(path), sink, {.offset = offset, .length = into.size()});
  if (!attributes) co_return attributes.error();
  co_return sink.filled();
}

asio::awaitable<Result<DegradedReadReport>> Client::read_lost_chunk(uint64_t stripe_id, uint32_t index,
                                                                    Sink& sink, LostReadOptions options) {
  KINTSUGI_CO_ASSIGN(proto::ShowStripeResponse shown, co_await show_stripe(stripe_id));
  LostChunkRead read(*resources_, context(), std::move(*shown.mutable_stripe()), index, std::move(options),
                     sink);
  KINTSUGI_CO_TRY(co_await read.run());
  co_return read.report();
}

std::unique_ptr<OpenFiles> Client::open_files(FilesOptions options, std::unique_ptr<DirtyMemory> memory,
                                              ChangeJournal* journal, std::span<std::byte> name_log,
                                              std::span<std::byte> own_locks) {
  return std::make_unique<OpenFiles>(*resources_, options, std::move(memory), journal, name_log, own_locks);
}

// ---- namespace

asio::awaitable<Result<proto::Attributes>> Client::stat(std::string path) {
  KINTSUGI_CO_ASSIGN(
      proto::StatResponse answer,
      co_await ask<proto::StatResponse>(Method::kStat, request_for<proto::StatRequest>(std::move(path))));
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::ListResponse>> Client::list(std::string path, std::string after,
                                                          uint32_t limit) {
  auto request = request_for<proto::ListRequest>(std::move(path));
  request->set_after(std::move(after));
  request->set_limit(limit);
  return ask<proto::ListResponse>(Method::kList, std::move(request));
}

asio::awaitable<Status> Client::make_directory(std::string path, bool parents, uint32_t mode) {
  auto request = request_for<proto::MakeDirectoryRequest>(std::move(path));
  request->set_parents(parents);
  request->set_mode(mode);
  return tell(Method::kMakeDirectory, std::move(request));
}

asio::awaitable<Status> Client::remove(std::string path, bool recursive) {
  auto request = request_for<proto::RemoveRequest>(std::move(path));
  request->set_recursive(recursive);
  return tell(Method::kRemove, std::move(request), Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Status> Client::rename(std::string from, std::string to, bool replace) {
  auto request = std::make_unique<proto::RenameRequest>();
  request->set_from(std::move(from));
  request->set_to(std::move(to));
  request->set_replace(replace);
  sign(*request);
  return tell(Method::kRename, std::move(request));
}

asio::awaitable<Result<proto::OpenReadResponse>> Client::extents(std::string path) {
  proto::OpenReadResponse whole, page;
  proto::OpenReadRequest request;
  request.set_path(std::move(path));
  sign(request);
  while (true) {
    KINTSUGI_CO_TRY(co_await resources_->meta.call(context(), Method::kOpenRead, request, page));
    *whole.mutable_attributes() = page.attributes();
    whole.mutable_extents()->MergeFrom(page.extents());
    whole.mutable_stripes()->MergeFrom(page.stripes());
    if (!page.more() || page.extents().empty()) co_return whole;
    const proto::Extent& last = page.extents(page.extents_size() - 1);
    request.set_offset(last.file_offset() + last.length());
  }
}

asio::awaitable<Result<proto::ListPoliciesResponse>> Client::list_policies() {
  return ask<proto::ListPoliciesResponse>(Method::kListPolicies, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::GetPolicyResponse>> Client::get_policy(std::string path) {
  return ask<proto::GetPolicyResponse>(Method::kGetPolicy,
                                       request_for<proto::GetPolicyRequest>(std::move(path)));
}

asio::awaitable<Status> Client::set_policy(std::string path, std::string policy) {
  auto request = request_for<proto::SetPolicyRequest>(std::move(path));
  request->set_policy(std::move(policy));
  return tell(Method::kSetPolicy, std::move(request));
}

asio::awaitable<Result<proto::DiskUsageResponse>> Client::disk_usage(std::string path) {
  return ask<proto::DiskUsageResponse>(Method::kDiskUsage,
                                       request_for<proto::DiskUsageRequest>(std::move(path)),
                                       Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::DiskFreeResponse>> Client::disk_free(std::optional<Context> within) {
  return ask<proto::DiskFreeResponse>(Method::kDiskFree, std::make_unique<proto::Empty>(), Repeat::kAllowed,
                                      MetaLink::kCallLimit, within);
}

// ---- quotas, snapshots, trash

asio::awaitable<Status> Client::set_quota(std::string path, std::optional<uint64_t> max_bytes,
                                          std::optional<uint64_t> max_files) {
  auto request = request_for<proto::SetQuotaRequest>(std::move(path));
  if (max_bytes) request->set_max_bytes(*max_bytes);
  if (max_files) request->set_max_files(*max_files);
  const bool removes = !max_bytes && !max_files;
  return tell(Method::kSetQuota, std::move(request), removes ? Repeat::kNever : Repeat::kAllowed);
}

asio::awaitable<Result<proto::GetQuotasResponse>> Client::quotas_at(std::string path) {
  return ask<proto::GetQuotasResponse>(Method::kGetQuotas,
                                       request_for<proto::GetQuotasRequest>(std::move(path)));
}

asio::awaitable<Result<proto::GetQuotasResponse>> Client::quotas_of(uint64_t inode,
                                                                    std::optional<Context> within) {
  auto request = std::make_unique<proto::GetQuotasRequest>();
  request->set_inode(inode);
  return ask<proto::GetQuotasResponse>(Method::kGetQuotas, std::move(request), Repeat::kAllowed,
                                       MetaLink::kCallLimit, within);
}

asio::awaitable<Result<proto::ListQuotasResponse>> Client::list_quotas(uint64_t after) {
  auto request = std::make_unique<proto::ListQuotasRequest>();
  request->set_after(after);
  return ask<proto::ListQuotasResponse>(Method::kListQuotas, std::move(request));
}

asio::awaitable<Status> Client::create_snapshot(std::string path, std::string name) {
  auto request = request_for<proto::CreateSnapshotRequest>(std::move(path));
  request->set_name(std::move(name));
  return tell(Method::kCreateSnapshot, std::move(request));
}

asio::awaitable<Status> Client::delete_snapshot(std::string path, std::string name) {
  auto request = request_for<proto::DeleteSnapshotRequest>(std::move(path));
  request->set_name(std::move(name));
  return tell(Method::kDeleteSnapshot, std::move(request));
}

asio::awaitable<Result<proto::ListSnapshotsResponse>> Client::list_snapshots(std::string path) {
  return ask<proto::ListSnapshotsResponse>(Method::kListSnapshots,
                                           request_for<proto::ListSnapshotsRequest>(std::move(path)));
}

asio::awaitable<Status> Client::set_trash(std::string path, Duration retention) {
  auto request = request_for<proto::SetTrashRequest>(std::move(path));
  request->set_retention_ns(retention.count());
  return tell(Method::kSetTrash, std::move(request));
}

asio::awaitable<Result<proto::ListTrashResponse>> Client::list_trash(std::string path, std::string after) {
  auto request = request_for<proto::ListTrashRequest>(std::move(path));
  request->set_after(std::move(after));
  return ask<proto::ListTrashResponse>(Method::kListTrash, std::move(request));
}

asio::awaitable<Result<proto::RestoreTrashResponse>> Client::restore_trash(std::string path,
                                                                           std::string entry,
                                                                           std::string to) {
  auto request = request_for<proto::RestoreTrashRequest>(std::move(path));
  request->set_entry(std::move(entry));
  request->set_to(std::move(to));
  return ask<proto::RestoreTrashResponse>(Method::kRestoreTrash, std::move(request));
}

asio::awaitable<Status> Client::empty_trash(std::string path, std::string entry) {
  auto request = request_for<proto::EmptyTrashRequest>(std::move(path));
  request->set_entry(std::move(entry));
  if (request->entry().empty())
    co_return co_await tell(Method::kEmptyTrash, std::move(request), Repeat::kAllowed,
                            MetaLink::kLongCallLimit);
  // An entry that is gone by the first call would be an error of the second one.
  Status emptied =
      co_await tell(Method::kEmptyTrash, std::move(request), Repeat::kNever, MetaLink::kLongCallLimit);
  if (emptied.code() != Code::kUnavailable) co_return emptied;
  co_return Status{Code::kUnavailable, emptied.message() + ": the entry may have been removed all the same"};
}

// ---- cluster

asio::awaitable<Result<proto::ListServersResponse>> Client::list_servers() {
  return ask<proto::ListServersResponse>(Method::kListServers, std::make_unique<proto::Empty>());
}

asio::awaitable<Status> Client::drain_server(uint64_t server_id, bool drain) {
  auto request = std::make_unique<proto::DrainServerRequest>();
  request->set_server_id(server_id);
  request->set_drain(drain);
  return tell(Method::kDrainServer, std::move(request));
}

asio::awaitable<Status> Client::remove_server(uint64_t server_id) {
  auto request = std::make_unique<proto::RemoveServerRequest>();
  request->set_server_id(server_id);
  return tell(Method::kRemoveServer, std::move(request), Repeat::kNever);
}

asio::awaitable<Result<proto::ShowStripeResponse>> Client::show_stripe(uint64_t stripe_id) {
  auto request = std::make_unique<proto::ShowStripeRequest>();
  request->set_stripe_id(stripe_id);
  return ask<proto::ShowStripeResponse>(Method::kShowStripe, std::move(request));
}

asio::awaitable<Result<proto::FsckResponse>> Client::fsck(std::string path,
                                                          const proto::FsckResponse& before) {
  auto request = request_for<proto::FsckRequest>(std::move(path));
  continue_after(before, *request);
  return ask<proto::FsckResponse>(Method::kFsck, std::move(request), Repeat::kAllowed,
                                  MetaLink::kLongCallLimit);
}

asio::awaitable<Result<DeepCheckReport>> Client::deep_check(std::string path, DeepCheckOptions options) {
  DeepCheck check(*resources_, context(), std::move(path), std::move(options));
  DeepCheckReport report;
  KINTSUGI_CO_TRY(co_await check.run(report));
  co_return report;
}

asio::awaitable<Result<proto::MetadataStatusResponse>> Client::metadata_status() {
  return ask<proto::MetadataStatusResponse>(Method::kMetadataStatus, std::make_unique<proto::Empty>());
}

asio::awaitable<Status> Client::accept_metadata() {
  return tell(Method::kAcceptMetadata, std::make_unique<proto::Empty>(), Repeat::kNever);
}

asio::awaitable<Result<proto::ListQuarantineResponse>> Client::list_quarantine(
    proto::ListQuarantineRequest request) {
  return ask<proto::ListQuarantineResponse>(
      Method::kListQuarantine, std::make_unique<proto::ListQuarantineRequest>(std::move(request)));
}

asio::awaitable<Result<proto::ChangeQuarantineResponse>> Client::change_quarantine(
    proto::ChangeQuarantineRequest::Change change, uint64_t stripe_id) {
  auto request = std::make_unique<proto::ChangeQuarantineRequest>();
  request->set_change(change);
  request->set_stripe_id(stripe_id);
  return ask<proto::ChangeQuarantineResponse>(Method::kChangeQuarantine, std::move(request), Repeat::kAllowed,
                                              MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::RepairStatusResponse>> Client::repair_status() {
  return ask<proto::RepairStatusResponse>(Method::kRepairStatus, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::RepairHistoryResponse>> Client::repair_history(uint32_t limit) {
  auto request = std::make_unique<proto::RepairHistoryRequest>();
  request->set_limit(limit);
  return ask<proto::RepairHistoryResponse>(Method::kRepairHistory, std::move(request));
}

asio::awaitable<Result<proto::RunRepairResponse>> Client::run_repair(proto::RunRepairRequest request) {
  proto::RunRepairResponse answer;
  KINTSUGI_CO_TRY(co_await resources_->meta.call(context(), Method::kRunRepair, request, answer,
                                                 Repeat::kNever, MetaLink::kLongCallLimit));
  co_return answer;
}

namespace {

/// A monitor needs some seconds to be sure of what this client has just met.
void add_silent_metaserver(proto::DiagnoseResponse& response, const Status& asked) {
  if (std::ranges::any_of(response.verdicts(), proto::is_metaserver_silent)) return;
  proto::Verdict& verdict = *response.add_verdicts();
  verdict.set_kind(proto::Verdict::SILENT);
  verdict.set_server("metaserver");
  verdict.set_process_kind("metaserver");
  verdict.set_confidence(proto::Verdict::LIKELY);
  verdict.add_why(fmt::format("it does not answer this command: {}", asked.message()));
}

}  // namespace

asio::awaitable<Result<proto::DiagnoseResponse>> Client::diagnose(
    proto::DiagnoseRequest request, std::optional<runtime::Endpoint> known_monitor) {
  proto::FindMonitorResponse found;
  const Status asked = co_await resources_->meta.call_once(
      context(), Method::kFindMonitor, proto::FindMonitorRequest(), found, kDiagnoseLimit);
  const auto told = runtime::Endpoint::parse(found.address());
  const std::optional<runtime::Endpoint> monitor = asked.ok() && told ? std::optional(*told) : known_monitor;
  proto::DiagnoseResponse response;
  Status answered{Code::kUnavailable, "no monitor runs"};
  if (monitor) {
    const Context limited = context().with_deadline(resources_->now() + kDiagnoseLimit);
    answered = co_await resources_->rpc.call(limited, *monitor, Method::kDiagnose, request, response);
    if (answered.ok()) {
      if (!asked.ok()) add_silent_metaserver(response, asked);
      co_return response;
    }
    answered = answered.with_context(fmt::format("the monitor at {}", monitor->to_string()));
  }
  response.Clear();
  const Status reduced =
      co_await resources_->meta.call_once(context(), Method::kDiagnose, request, response, kDiagnoseLimit);
  if (!reduced.ok() && !asked.ok()) {
    const std::string why =
        monitor ? answered.message() : "no monitor was asked (KINTSUGI_MONITOR can name one)";
    co_return Status{
        Code::kUnavailable,
        fmt::format("the metaserver cannot be reached, and nothing can be stored or found without it: {}; {}",
                    asked.message(), why)};
  }
  if (!reduced.ok())
    co_return Status{Code::kUnavailable,
                     fmt::format("{}; the metaserver: {}", answered.message(), reduced.message())};
  response.set_reduced(true);
  co_return response;
}

}  // namespace kintsugi::client
