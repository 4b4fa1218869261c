#include "metaserver/daemon/repair_reports.h"

#include <algorithm>

#include "common/runtime/task_group.h"

namespace kintsugi::metaserver {

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
  const auto others =
      co_await ask_all<proto::RepairStatusResponse>(context, rpc::Method::kRepairStatus, request);
  all = hosted_.status();
  for (const proto::RepairStatusResponse& one : others) {
    all.set_queued(all.queued() + one.queued());
    all.set_delayed(all.delayed() + one.delayed());
    all.set_done(all.done() + one.done());
    all.set_failed(all.failed() + one.failed());
    all.set_bytes_repaired(all.bytes_repaired() + one.bytes_repaired());
    all.set_unrepairable(all.unrepairable() + one.unrepairable());
    all.mutable_running()->MergeFrom(one.running());
  }
}

asio::awaitable<void> RepairReports::history(Context context, uint32_t limit,
                                             proto::RepairHistoryResponse& all) {
  proto::RepairHistoryRequest request;
  request.set_limit(limit);
  const auto others =
      co_await ask_all<proto::RepairHistoryResponse>(context, rpc::Method::kRepairHistory, request);
  for (proto::RepairRecord& record : hosted_.history(limit))
    *all.add_records() = std::move(record);
  if (others.empty()) co_return;
  for (const proto::RepairHistoryResponse& one : others)
    all.mutable_records()->MergeFrom(one.records());
  const auto ended = [](const proto::RepairRecord& record) {
    return static_cast<double>(record.started_ns()) + record.timing().seconds() * 1e9;
  };
  std::stable_sort(all.mutable_records()->begin(), all.mutable_records()->end(),
                   [&](const auto& a, const auto& b) { return ended(a) > ended(b); });
  if (all.records_size() > static_cast<int>(limit))
    all.mutable_records()->DeleteSubrange(static_cast<int>(limit),
                                          all.records_size() - static_cast<int>(limit));
}

}  // namespace kintsugi::metaserver
