#include "metaserver/daemon/repair_reports.h"

#include <algorithm>
#include <set>
#include <span>

#include "common/runtime/task_group.h"

namespace kintsugi::metaserver {
namespace {

using Names = google::protobuf::RepeatedPtrField<proto::ServerName>;

/// Adds the names of all servers in the records, each once.
template <class Records>
void add_names_of(const Records& records, const ServerNames& known, Names* names) {
  std::set<uint64_t> servers;
  for (const proto::RepairRecord& record : records) {
    servers.insert(record.destination());
    servers.insert(record.destinations().begin(), record.destinations().end());
    servers.insert(record.helpers().begin(), record.helpers().end());
    for (const proto::ServerTiming& timing : record.servers())
      servers.insert(timing.server_id());
  }
  servers.erase(0);
  for (uint64_t server : servers)
    *names->Add() = known.of(ServerId{server});
}

}  // namespace

template <class Response>
asio::awaitable<std::vector<Response>> RepairReports::ask_all(Context context, rpc::Method method,
                                                              const google::protobuf::MessageLite& request) {
  const Context limited = context.with_deadline(runtime_.clock.now() + kAskLimit);
  std::vector<Response> answers;
  runtime::TaskGroup calls(runtime_);
  const auto ask = [&](std::string address) -> asio::awaitable<void> {
    const auto endpoint = runtime::Endpoint::parse(address);
    if (!endpoint) co_return;
    Response answer;
    const Status asked = co_await client_.call(limited, *endpoint, method, request, answer);
    if (asked.ok()) answers.push_back(std::move(answer));
  };
  for (const auto& [id, manager] : shards_.managers())
    calls.spawn(ask(manager.address));
  co_await calls.join();
  co_return answers;
}

asio::awaitable<void> RepairReports::status(Context context, proto::RepairStatusResponse& all) {
  const proto::Empty request;
  const auto answers =
      co_await ask_all<proto::RepairStatusResponse>(context, rpc::Method::kRepairStatus, request);
  for (const proto::RepairStatusResponse& one : answers) {
    all.set_queued(all.queued() + one.queued());
    all.set_delayed(all.delayed() + one.delayed());
    all.set_done(all.done() + one.done());
    all.set_failed(all.failed() + one.failed());
    all.set_bytes_repaired(all.bytes_repaired() + one.bytes_repaired());
    all.set_unrepairable(all.unrepairable() + one.unrepairable());
    all.mutable_running()->MergeFrom(one.running());
  }
  add_names_of(all.running(), names_, all.mutable_names());
}

asio::awaitable<void> RepairReports::history(Context context, uint32_t limit,
                                             proto::RepairHistoryResponse& all) {
  proto::RepairHistoryRequest request;
  request.set_limit(limit);
  const auto answers =
      co_await ask_all<proto::RepairHistoryResponse>(context, rpc::Method::kRepairHistory, request);
  for (const proto::RepairHistoryResponse& one : answers)
    all.mutable_records()->MergeFrom(one.records());
  const auto ended = [](const proto::RepairRecord& record) {
    return static_cast<double>(record.started_ns()) + record.timing().seconds() * 1e9;
  };
  std::stable_sort(all.mutable_records()->begin(), all.mutable_records()->end(),
                   [&](const auto& a, const auto& b) { return ended(a) > ended(b); });
  if (all.records_size() > static_cast<int>(limit))
    all.mutable_records()->DeleteSubrange(static_cast<int>(limit),
                                          all.records_size() - static_cast<int>(limit));
  add_names_of(all.records(), names_, all.mutable_names());
}

void RepairReports::add_names(proto::RunRepairResponse& response) const {
  add_names_of(std::span(&response.record(), 1), names_, response.mutable_names());
}

}  // namespace kintsugi::metaserver
