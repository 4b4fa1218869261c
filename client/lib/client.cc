#include "client/lib/client.h"

#include "common/base/assert.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

using rpc::Method;

Client::Client(const runtime::Runtime& runtime, Options options, rpc::Secret secret) {
  KINTSUGI_ASSERT(options.memory_bytes >= kMinMemoryBytes);
  core_ = std::make_unique<Core>(runtime, std::move(options), secret);
}

Client::~Client() = default;

Context Client::context() const {
  Context context;
  context.recorder = core_->options.recorder;
  return context;
}

asio::awaitable<void> Client::stop() {
  core_->background.request_stop();
  co_await core_->rpc.stop();
  co_await core_->background.join();
}

// ---- files
// ----------------------------------------------------------------------------------------------------------

asio::awaitable<Result<proto::Attributes>> Client::write(std::string path, Source& source,
                                                         WriteOptions options) {
  FileWriter writer(*core_, context(), std::move(path), source, std::move(options));
  co_return co_await writer.run();
}

asio::awaitable<Result<proto::Attributes>> Client::read(std::string path, Sink& sink, ReadOptions options) {
  FileReader reader(*core_, context(), std::move(path), sink, std::move(options));
  auto attributes = co_await reader.open();
  if (!attributes) co_return attributes;
  KINTSUGI_CO_TRY(co_await reader.run());
  co_return attributes;
}

asio::awaitable<Result<size_t>> Client::read_at(std::string path, uint64_t offset,
                                                std::span<std::byte> into) {
  if (into.empty()) co_return size_t{0};
  MemorySink sink(into);
  ReadOptions options;
  options.offset = offset;
  options.length = into.size();
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes,
                     co_await read(std::move(path), sink, std::move(options)));
  (void)attributes;
  co_return sink.filled();
}

asio::awaitable<Result<DegradedReadReport>> Client::read_lost_chunk(uint64_t stripe_id, uint32_t index,
                                                                    Sink& sink, LostReadOptions options) {
  KINTSUGI_CO_ASSIGN(proto::ShowStripeResponse shown, co_await show_stripe(stripe_id));
  auto read = std::make_unique<LostChunkRead>(*core_, context(), std::move(*shown.mutable_stripe()), index,
                                              std::move(options), sink);
  co_return co_await read->run();
}

// ---- namespace
// ------------------------------------------------------------------------------------------------------

asio::awaitable<Result<proto::Attributes>> Client::stat(std::string path) {
  proto::StatRequest request;
  request.set_path(std::move(path));
  KINTSUGI_CO_ASSIGN(proto::StatResponse answer,
                     co_await core_->meta.call<proto::StatResponse>(context(), Method::kStat, request));
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::ListResponse>> Client::list(std::string path, std::string after,
                                                          uint32_t limit) {
  proto::ListRequest request;
  request.set_path(std::move(path));
  request.set_after(std::move(after));
  request.set_limit(limit);
  co_return co_await core_->meta.call<proto::ListResponse>(context(), Method::kList, request);
}

asio::awaitable<Status> Client::make_directory(std::string path, bool parents, uint32_t mode) {
  proto::MakeDirectoryRequest request;
  request.set_path(std::move(path));
  request.set_parents(parents);
  request.set_mode(mode);
  auto answer = co_await core_->meta.call<proto::Empty>(context(), Method::kMakeDirectory, request,
                                                        parents ? Repeat::kAllowed : Repeat::kNever);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Status> Client::remove(std::string path, bool recursive) {
  proto::RemoveRequest request;
  request.set_path(std::move(path));
  request.set_recursive(recursive);
  auto answer = co_await core_->meta.call<proto::Empty>(context(), Method::kRemove, request, Repeat::kNever,
                                                        MetaLink::kLongCallLimit);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Status> Client::rename(std::string from, std::string to, bool replace) {
  proto::RenameRequest request;
  request.set_from(std::move(from));
  request.set_to(std::move(to));
  request.set_replace(replace);
  auto answer = co_await core_->meta.call<proto::Empty>(context(), Method::kRename, request, Repeat::kNever);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Result<proto::OpenReadResponse>> Client::extents(std::string path) {
  proto::OpenReadResponse whole;
  uint64_t offset = 0;
  while (true) {
    proto::OpenReadRequest request;
    request.set_path(path);
    request.set_offset(offset);
    KINTSUGI_CO_ASSIGN(const auto page, co_await core_->meta.call<proto::OpenReadResponse>(
                                            context(), Method::kOpenRead, request));
    *whole.mutable_attributes() = page.attributes();
    whole.mutable_extents()->MergeFrom(page.extents());
    whole.mutable_stripes()->MergeFrom(page.stripes());
    if (!page.more() || page.extents().empty()) co_return whole;
    const proto::Extent& last = page.extents(page.extents_size() - 1);
    offset = last.file_offset() + last.length();
  }
}

asio::awaitable<Result<proto::ListPoliciesResponse>> Client::list_policies() {
  const proto::Empty request;
  co_return co_await core_->meta.call<proto::ListPoliciesResponse>(context(), Method::kListPolicies, request);
}

asio::awaitable<Result<proto::GetPolicyResponse>> Client::get_policy(std::string path) {
  proto::GetPolicyRequest request;
  request.set_path(std::move(path));
  co_return co_await core_->meta.call<proto::GetPolicyResponse>(context(), Method::kGetPolicy, request);
}

asio::awaitable<Status> Client::set_policy(std::string path, std::string policy) {
  proto::SetPolicyRequest request;
  request.set_path(std::move(path));
  request.set_policy(std::move(policy));
  auto answer = co_await core_->meta.call<proto::Empty>(context(), Method::kSetPolicy, request);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Result<proto::DiskUsageResponse>> Client::disk_usage(std::string path) {
  proto::DiskUsageRequest request;
  request.set_path(std::move(path));
  co_return co_await core_->meta.call<proto::DiskUsageResponse>(context(), Method::kDiskUsage, request,
                                                                Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::DiskFreeResponse>> Client::disk_free() {
  const proto::Empty request;
  co_return co_await core_->meta.call<proto::DiskFreeResponse>(context(), Method::kDiskFree, request);
}

// ---- cluster
// --------------------------------------------------------------------------------------------------------

asio::awaitable<Result<proto::ListServersResponse>> Client::list_servers() {
  const proto::Empty request;
  co_return co_await core_->meta.call<proto::ListServersResponse>(context(), Method::kListServers, request);
}

asio::awaitable<Status> Client::drain_server(uint64_t server_id, bool drain) {
  proto::DrainServerRequest request;
  request.set_server_id(server_id);
  request.set_drain(drain);
  auto answer = co_await core_->meta.call<proto::Empty>(context(), Method::kDrainServer, request);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Status> Client::remove_server(uint64_t server_id) {
  proto::RemoveServerRequest request;
  request.set_server_id(server_id);
  auto answer =
      co_await core_->meta.call<proto::Empty>(context(), Method::kRemoveServer, request, Repeat::kNever);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Result<proto::ShowStripeResponse>> Client::show_stripe(uint64_t stripe_id) {
  proto::ShowStripeRequest request;
  request.set_stripe_id(stripe_id);
  co_return co_await core_->meta.call<proto::ShowStripeResponse>(context(), Method::kShowStripe, request);
}

asio::awaitable<Result<proto::FsckResponse>> Client::fsck(std::string path, std::string after) {
  proto::FsckRequest request;
  request.set_path(std::move(path));
  request.set_after(std::move(after));
  co_return co_await core_->meta.call<proto::FsckResponse>(context(), Method::kFsck, request,
                                                           Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::RepairStatusResponse>> Client::repair_status() {
  const proto::Empty request;
  co_return co_await core_->meta.call<proto::RepairStatusResponse>(context(), Method::kRepairStatus, request);
}

asio::awaitable<Result<proto::RepairHistoryResponse>> Client::repair_history(uint32_t limit) {
  proto::RepairHistoryRequest request;
  request.set_limit(limit);
  co_return co_await core_->meta.call<proto::RepairHistoryResponse>(context(), Method::kRepairHistory,
                                                                    request);
}

asio::awaitable<Result<proto::RepairRecord>> Client::run_repair(proto::RunRepairRequest request) {
  KINTSUGI_CO_ASSIGN(proto::RunRepairResponse answer,
                     co_await core_->meta.call<proto::RunRepairResponse>(
                         context(), Method::kRunRepair, request, Repeat::kNever, MetaLink::kLongCallLimit));
  co_return std::move(*answer.mutable_record());
}

}  // namespace kintsugi::client
