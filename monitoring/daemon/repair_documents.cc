#include "monitoring/daemon/repair_documents.h"

#include <algorithm>
#include <set>

#include "common/proto/names.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;

}  // namespace

RepairDocuments::RepairDocuments(const Monitor& monitor) : monitor_(monitor), snapshot_(monitor.snapshot()) {
  for (const proto::ServerName& name : monitor.watch().repairs().names())
    names_[name.server_id()] = name.name();
  for (const auto& view : snapshot_.processes)
    if (view->last().server_id() != 0) processes_[view->last().server_id()] = view.get();
}

Document RepairDocuments::of(const proto::RepairRecord& record) const {
  const auto running_ns = std::max<int64_t>(0, snapshot_.wall_ns - record.started_ns());
  return {{"repair_id", record.repair_id()},
          {"kind", proto::kind_name(record.kind())},
          {"stripe_id", record.stripe_id()},
          {"index", record.index()},
          {"policy", record.policy()},
          {"shape", proto::shape_name(record.shape())},
          {"trees", record.trees()},
          {"bytes", record.chunk_bytes()},
          {"slice_bytes", record.slice_bytes()},
          {"attempt", record.attempt()},
          {"reason", record.reason()},
          {"running_s", static_cast<double>(running_ns) / 1e9},
          {"estimated_s", record.estimated_seconds()},
          {"nodes", nodes_of(record)},
          {"edges", edges_of(record)}};
}

Document RepairDocuments::nodes_of(const proto::RepairRecord& record) const {
  std::set<uint64_t> nodes{record.destination()};
  for (const proto::RepairEdge& edge : record.edges())
    nodes.insert(edge.from());
  Document documents = Document::array();
  for (const uint64_t node : nodes)
    documents.push_back(
        {{"id", std::to_string(node)}, {"name", name_of(node)}, {"root", node == record.destination()}});
  return documents;
}

Document RepairDocuments::edges_of(const proto::RepairRecord& record) const {
  Document edges = Document::array();
  for (const proto::RepairEdge& edge : record.edges())
    edges.push_back({{"from", std::to_string(edge.from())},
                     {"to", std::to_string(edge.to())},
                     {"rate", rate(edge.from(), edge.to())}});
  return edges;
}

std::string RepairDocuments::name_of(uint64_t node) const {
  if (node == 0) return "a client";
  const auto name = names_.find(node);
  return name == names_.end() ? std::to_string(node) : name->second;
}

Document RepairDocuments::rate(uint64_t from, uint64_t to) const {
  const auto sender = processes_.find(from), receiver = processes_.find(to);
  if (sender == processes_.end() || receiver == processes_.end()) return {};
  const DeviceTrend* trend =
      monitor_.trends().device(receiver->second->process(), true, sender->second->last().address());
  return trend == nullptr ? Document() : Document(trend->bytes_in_per_second);
}

}  // namespace kintsugi::monitoring
