// repair status, limit, history, run; what-if stands in what_if_command.cc.
#include <set>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"
#include "common/base/operator_limits.h"
#include "common/config/units.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

constexpr uint32_t kDefaultHistory = 100;

/// Where the chunks went: "onto chunkserver-3, chunkserver-5", "for a client".
std::string destination_text(const proto::RepairRecord& record, const ServerNames& names) {
  if (record.destination() == 0) return record.kind() == proto::RepairRecord::READ ? "for a client" : "";
  std::string text = "onto " + names.name(record.destination());
  for (int i = 1; i < record.destinations_size(); ++i)
    text += ", " + names.name(record.destinations(i));
  return text;
}

/// The shape of the trees and their helpers: "chain of 6", "weighted, 2 trees, of 6".
std::string tree_text(const proto::RepairRecord& record) {
  return fmt::format("{}{} of {}", proto::shape_name(record.shape()),
                     record.trees() > 1 ? fmt::format(", {} trees,", record.trees()) : "",
                     record.helpers_size());
}

/// Prints one line: when, what, how it ended, how it was done, why.
void print_record(const proto::RepairRecord& record, const ServerNames& names) {
  const std::string destination = destination_text(record, names);
  fmt::print("{}  {:<6} {:<10} {:<7} {} {}{}by {}, {:.2f} s{}{}\n", local_time(record.started_ns()),
             proto::kind_name(record.kind()), chunks_text(record), proto::outcome_name(record.outcome()),
             human_bytes(record.chunk_bytes()), destination, destination.empty() ? "" : " ",
             tree_text(record), record.timing().seconds(),
             record.reason().empty() ? "" : ", " + record.reason(),
             record.detail().empty() ? "" : ": " + record.detail());
}

Status repair_status(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::RepairStatusResponse answer, client.run(client.async().repair_status()));
  const ServerNames names(answer.names());
  if (session.json) {
    Json running = Json::array();
    for (const proto::RepairRecord& record : answer.running())
      running.push_back(to_json(record, names));
    print_json({{"queued", answer.queued()},
                {"delayed", answer.delayed()},
                {"running", std::move(running)},
                {"done", answer.done()},
                {"failed", answer.failed()},
                {"bytes_repaired", answer.bytes_repaired()},
                {"unrepairable", answer.unrepairable()},
                {"repair_delay_seconds", answer.repair_delay_seconds()},
                {"limit_bytes_per_second", answer.limit_bytes_per_second()}});
    return {};
  }
  fmt::print("{} running, {} queued, {} waiting out the repair delay of {:.0f} s, {} unrepairable\n",
             answer.running_size(), answer.queued(), answer.delayed(), answer.repair_delay_seconds(),
             answer.unrepairable());
  fmt::print("{} done ({}), {} failed since the start\n", answer.done(), human_bytes(answer.bytes_repaired()),
             answer.failed());
  if (answer.limit_bytes_per_second() > 0)
    fmt::print("limited to {} a second at each server, each way (kintsugi repair limit)\n",
               human_bytes(answer.limit_bytes_per_second()));
  for (const proto::RepairRecord& record : answer.running())
    print_record(record, names);
  return {};
}

/// The rate in bytes a second; 0: "off".
Result<uint64_t> rate_of(const std::string& text) {
  if (text == "off") return uint64_t{0};
  const Result<uint64_t> rate = config::parse_bytes(text);
  if (rate && *rate >= kLeastRepairLimit && *rate <= kMostRepairLimit) return *rate;
  return Status{Code::kInvalidArgument,
                fmt::format("RATE is bytes a second at each server, {} to {}, as in 50MiB, or off",
                            human_bytes(kLeastRepairLimit), human_bytes(kMostRepairLimit))};
}

Status limit_repairs(Session& session, BlockingClient& client, const std::string& text) {
  KINTSUGI_ASSIGN(const uint64_t rate, rate_of(text));
  KINTSUGI_TRY(client.run(client.async().limit_repairs(rate)));
  if (session.json) {
    print_json({{"limit_bytes_per_second", rate}});
  } else if (rate == 0) {
    fmt::print("Repairs are not limited, except where servers have `repair.bandwidth`.\n");
  } else {
    fmt::print(
        "Repairs and moves send, and receive, {} a second at each server at most. Repairs of stripes that "
        "cannot lose another chunk are not slowed.\n"
        "End:  kintsugi repair limit off\n",
        human_bytes(rate));
  }
  return {};
}

Status repair_history(Session& session, BlockingClient& client, const uint32_t& limit) {
  KINTSUGI_ASSIGN(const proto::RepairHistoryResponse answer,
                  client.run(client.async().repair_history(limit)));
  const ServerNames names(answer.names());
  Json records = Json::array();
  for (const proto::RepairRecord& record : answer.records()) {
    if (session.json) {
      records.push_back(to_json(record, names));
    } else {
      print_record(record, names);
    }
  }
  if (session.json) print_json({{"repairs", std::move(records)}});
  if (!session.json && answer.records().empty()) fmt::print("no repairs since the repair managers started\n");
  return {};
}

void print_result(const proto::RepairRecord& record, const ServerNames& names) {
  const proto::Timing& timing = record.timing();
  fmt::print("chunk {} ({}, {}) rebuilt {} with a {} helpers, slices of {}: {}\n", chunks_text(record),
             record.policy(), human_bytes(record.chunk_bytes()), destination_text(record, names),
             tree_text(record), human_bytes(record.slice_bytes()),
             rate_text(record.chunk_bytes() * static_cast<uint64_t>(std::max(record.indexes_size(), 1)),
                       timing.seconds()));
  fmt::print("plan {:.3f} s, read {:.3f} s, network {:.3f} s, compute {:.3f} s, write {:.3f} s\n",
             timing.plan_seconds(), timing.read_seconds(), timing.network_seconds(), timing.compute_seconds(),
             timing.write_seconds());
}

struct RunArguments {
  std::vector<ChunkId> chunks;
  proto::RepairShape shape = proto::RepairShape::AUTO;
  uint64_t slice_bytes = 0;
  std::string destination;  ///< empty: the repair manager chooses
};

/// Refuses what one pass cannot rebuild: chunks of several stripes, and one chunk twice.
Status check_chunks(const std::vector<ChunkId>& chunks) {
  std::set<ChunkId> seen;
  for (const ChunkId chunk : chunks) {
    if (!seen.insert(chunk).second)
      return {Code::kInvalidArgument, fmt::format("--chunk: {} is given twice", chunk)};
    if (chunk.stripe != chunks.front().stripe)
      return {Code::kInvalidArgument, "--chunk: chunks that are rebuilt together belong to one stripe"};
  }
  return {};
}

/// REQUIRES: check_chunks() accepts the chunks. The first is the one that the root of the tree writes.
proto::RunRepairRequest make_request(const RunArguments& arguments, uint64_t destination) {
  proto::RunRepairRequest request;
  request.set_stripe_id(arguments.chunks.front().stripe.value);
  request.set_index(arguments.chunks.front().index);
  for (size_t i = 1; i < arguments.chunks.size(); ++i)
    request.add_more_indexes(arguments.chunks[i].index);
  request.set_shape(arguments.shape);
  request.set_slice_bytes(arguments.slice_bytes);
  request.set_destination(destination);
  return request;
}

Status run_repair(Session& session, BlockingClient& client, const RunArguments& arguments) {
  uint64_t destination = 0;
  if (!arguments.destination.empty()) {
    KINTSUGI_ASSIGN(const proto::ListServersResponse servers, client.run(client.async().list_servers()));
    KINTSUGI_ASSIGN(const proto::ServerState server, find_server(servers, arguments.destination));
    destination = server.server_id();
  }
  KINTSUGI_ASSIGN(const proto::RunRepairResponse answer,
                  client.run(client.async().run_repair(make_request(arguments, destination))));
  const proto::RepairRecord& record = answer.record();
  const ServerNames names(answer.names());
  const bool failed = record.outcome() == proto::RepairRecord::FAILED;
  if (session.json) {
    print_json(to_json(record, names));
  } else if (!failed) {
    print_result(record, names);
  }
  if (failed) return {Code::kUnavailable, record.detail().empty() ? "the repair failed" : record.detail()};
  return {};
}

}  // namespace

std::vector<Command> repair_commands() {
  const auto limit = std::make_shared<uint32_t>(kDefaultHistory);
  const auto a = std::make_shared<RunArguments>();
  const auto rate = std::make_shared<std::string>();
  return {{.name = "repair",
           .help = "Rebuilding of lost chunks: current repairs, past repairs, repair now, repairs to come",
           .commands = {
               {.name = "status",
                .help = "Show what is being repaired and what waits",
                .prints_json = true,
                .run = connected(repair_status)},
               {.name = "limit",
                .help = "Limit what repairs may send and receive, at every server, while the cluster runs",
                .options = {{"RATE", rate.get(), "Bytes a second, as in 50MiB, or off", kRequired}},
                .prints_json = true,
                .check =
                    [rate] {
                      const Result<uint64_t> parsed = rate_of(*rate);
                      return parsed ? Status{} : parsed.error();
                    },
                .run = connected(rate, limit_repairs)},
               {.name = "history",
                .help = "Show past repairs, newest first",
                .options = {{"--limit", limit.get(), "How many; default: 100"}},
                .prints_json = true,
                .run = connected(limit, repair_history)},
               {.name = "run",
                .help = "Rebuild chunks of one stripe now, in one pass, and report how long it took",
                .options = {{"--chunk", &a->chunks, "A chunk to rebuild; several of one stripe when repeated",
                             kRequired},
                            {.names = "--shape",
                             .target = one_of(&a->shape,
                                              {proto::RepairShape::STAR, proto::RepairShape::STAGGERED,
                                               proto::RepairShape::PPR, proto::RepairShape::CHAIN,
                                               proto::RepairShape::WEIGHTED, proto::RepairShape::AUTO},
                                              proto::shape_name),
                             .help = "Shape of the repair tree; default: auto"},
                            {"--slice", Bytes{&a->slice_bytes},
                             "Bytes of a slice; the chunk size means unsliced"},
                            {"--dst", &a->destination, "Server that gets the (first) chunk"}},
                .prints_json = true,
                .check = [a] { return check_chunks(a->chunks); },
                .run = connected(a, run_repair)},
               what_if_command()}}};
}

}  // namespace kintsugi::cli
