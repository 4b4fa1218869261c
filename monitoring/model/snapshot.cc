#include "monitoring/model/snapshot.h"

#include <algorithm>

#include "common/proto/sight_snapshot.pb.h"

namespace kintsugi::model {

int Snapshot::index_of(uint64_t process) const {
  const auto at =
      std::ranges::lower_bound(processes, process, {}, [](const auto& view) { return view->process(); });
  return at == processes.end() || (*at)->process() != process ? -1 : static_cast<int>(at - processes.begin());
}

const ProcessView* Snapshot::at(std::string_view address) const {
  if (address.empty()) return nullptr;
  const ProcessView* best = nullptr;
  for (const auto& view : processes)
    if (view->last().address() == address && (best == nullptr || view->arrived() > best->arrived()))
      best = view.get();
  return best;
}

const ServerLife* Snapshot::server(std::string_view address, uint64_t server_id) const {
  const auto found = std::find_if(servers.begin(), servers.end(), [&](const ServerLife& life) {
    return (server_id != 0 && life.server_id == server_id) || (!address.empty() && life.address == address);
  });
  return found == servers.end() ? nullptr : &*found;
}

Status Processes::accept(proto::SightReport report, TimePoint arrived) {
  KINTSUGI_TRY(check_report(report));
  const uint64_t process = report.process(), server = report.server_id();
  const std::string address = report.address();
  auto found = views_.find(process);
  if (found == views_.end()) {
    const auto replaces = [&](auto& index, const auto& key) {
      const auto known = index.find(key);
      if (known != index.end() && known->second != process) views_.erase(known->second);
      index[key] = process;
    };
    if (!address.empty()) replaces(by_address_, address);
    if (server != 0) replaces(by_server_, server);
    if (views_.size() >= kMaxProcesses)
      views_.erase(std::min_element(views_.begin(), views_.end(), [](const auto& a, const auto& b) {
        return a.second->arrived() < b.second->arrived();
      }));
    found = views_.emplace(process, std::make_shared<ProcessView>()).first;
  }
  return found->second->accept(std::move(report), arrived);
}

void Processes::forget(TimePoint now, Duration ended_for, Duration silence) {
  std::erase_if(views_, [&](const auto& entry) {
    const ProcessView& view = *entry.second;
    return now - view.arrived() > (view.last().last() ? ended_for : silence);
  });
  const auto is_gone = [this](const auto& entry) { return !views_.contains(entry.second); };
  std::erase_if(by_address_, is_gone);
  std::erase_if(by_server_, is_gone);
}

const ProcessView* Processes::find(uint64_t process) const {
  const auto found = views_.find(process);
  return found == views_.end() ? nullptr : found->second.get();
}

Snapshot Processes::snapshot(TimePoint now, int64_t wall_ns, std::vector<ServerLife> servers) const {
  Snapshot snapshot{
      .taken = now, .wall_ns = wall_ns, .processes = {}, .servers = std::move(servers), .metaserver = {}};
  for (const auto& [process, view] : views_)
    if (!view->empty()) snapshot.processes.push_back(view);
  return snapshot;
}

std::string serialise(const Snapshot& snapshot) {
  proto::SightSnapshot message;
  message.set_format(1);
  message.set_taken_ns(snapshot.taken.time_since_epoch().count());
  message.set_wall_ns(snapshot.wall_ns);
  for (const auto& view : snapshot.processes) {
    proto::SightSnapshotProcess& process = *message.add_processes();
    *process.mutable_state() = view->to_report();
    process.set_silent_ns(static_cast<uint64_t>(std::max<int64_t>(snapshot.silent(*view).count(), 0)));
    process.set_refused(view->refused());
  }
  for (const ServerLife& life : snapshot.servers) {
    proto::SightSnapshotServer& server = *message.add_servers();
    server.set_server_id(life.server_id);
    server.set_address(life.address);
    server.set_name(life.name);
    server.set_liveness(static_cast<proto::SightSnapshotServer::Liveness>(life.liveness));
  }
  if (snapshot.metaserver.unanswered) {
    message.mutable_metaserver()->set_address(snapshot.metaserver.address);
    message.mutable_metaserver()->set_unanswered_ns(
        static_cast<uint64_t>(std::max<int64_t>(snapshot.metaserver.unanswered->count(), 0)));
  }
  return message.SerializeAsString();
}

Result<Snapshot> parse_snapshot(std::string_view bytes) {
  proto::SightSnapshot message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || message.format() != 1)
    return Status(Code::kCorrupt, "these are not the bytes of a snapshot of reports");
  Snapshot snapshot{.taken = TimePoint(Duration(message.taken_ns())),
                    .wall_ns = message.wall_ns(),
                    .processes = {},
                    .servers = {},
                    .metaserver = {}};
  // Durations are clamped: a difference to `taken` must not overflow.
  const auto before = [&](uint64_t ns) {
    return snapshot.taken - Duration(std::min<uint64_t>(ns, int64_t{1} << 61));
  };
  if (snapshot.taken.time_since_epoch().count() < 0 || message.taken_ns() > (int64_t{1} << 61))
    return Status(Code::kCorrupt, "a snapshot of reports at an impossible time");
  for (proto::SightSnapshotProcess& process : *message.mutable_processes()) {
    auto view = std::make_shared<ProcessView>();
    if (!view->accept(std::move(*process.mutable_state()), before(process.silent_ns())).ok()) continue;
    snapshot.processes.push_back(std::move(view));
  }
  for (const proto::SightSnapshotServer& server : message.servers())
    snapshot.servers.push_back({.server_id = server.server_id(),
                                .address = server.address(),
                                .name = server.name(),
                                .liveness = static_cast<Liveness>(std::min<int>(server.liveness(), 2))});
  if (message.has_metaserver())
    snapshot.metaserver = {
        .address = message.metaserver().address(),
        .unanswered = Duration(std::min<uint64_t>(message.metaserver().unanswered_ns(), int64_t{1} << 61))};
  return snapshot;
}

}  // namespace kintsugi::model
