#include <cstdio>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "common/proto/names.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using Json = nlohmann::ordered_json;

constexpr uint32_t kDefaultHistory = 100;

/// "on 12", "onto the client": where the chunks went.
std::string destination_text(const proto::RepairRecord& record) {
  if (record.destination() == 0) return record.kind() == proto::RepairRecord::READ ? "for a client" : "";
  std::string text = fmt::format("onto {}", record.destination());
  for (int i = 1; i < record.destinations_size(); ++i)
    text += fmt::format(", {}", record.destinations(i));
  return text;
}

/// "chain of 6", "weighted, 2 trees, of 6".
std::string tree_text(const proto::RepairRecord& record) {
  return fmt::format("{}{} of {}", proto::shape_name(record.shape()),
                     record.trees() > 1 ? fmt::format(", {} trees,", record.trees()) : "",
                     record.helpers_size());
}

/// One line: when, what, how it ended, how it was done, why.
void print_record(const proto::RepairRecord& record) {
  const std::string destination = destination_text(record);
  fmt::print("{}  {:<6} {:<10} {:<7} {} {}{}by {}, {:.2f} s{}{}\n", local_time(record.started_ns()),
             proto::kind_name(record.kind()), chunks_text(record), proto::outcome_name(record.outcome()),
             human_bytes(record.chunk_bytes()), destination, destination.empty() ? "" : " ",
             tree_text(record), record.timing().seconds(),
             record.reason().empty() ? "" : ", " + record.reason(),
             record.detail().empty() ? "" : ": " + record.detail());
}

Status status(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::RepairStatusResponse answer, client.run(client.async().repair_status()));
  if (session.json) {
    Json running = Json::array();
    for (const proto::RepairRecord& record : answer.running())
      running.push_back(to_json(record));
    print_json({{"queued", answer.queued()},
                {"delayed", answer.delayed()},
                {"running", std::move(running)},
                {"done", answer.done()},
                {"failed", answer.failed()},
                {"bytes_repaired", answer.bytes_repaired()},
                {"unrepairable", answer.unrepairable()},
                {"repair_delay_seconds", answer.repair_delay_seconds()}});
    return {};
  }
  fmt::print("{} running, {} queued, {} waiting out the repair delay of {:.0f} s, {} unrepairable\n",
             answer.running_size(), answer.queued(), answer.delayed(), answer.repair_delay_seconds(),
             answer.unrepairable());
  fmt::print("{} done ({}), {} failed since the start\n", answer.done(), human_bytes(answer.bytes_repaired()),
             answer.failed());
  for (const proto::RepairRecord& record : answer.running())
    print_record(record);
  return {};
}

Status history(Session& session, BlockingClient& client, uint32_t limit) {
  KINTSUGI_ASSIGN(const proto::RepairHistoryResponse answer,
                  client.run(client.async().repair_history(limit)));
  Json records = Json::array();
  for (const proto::RepairRecord& record : answer.records()) {
    if (session.json) {
      records.push_back(to_json(record));
    } else {
      print_record(record);
    }
  }
  if (session.json) print_json({{"repairs", std::move(records)}});
  return {};
}

void print_result(const proto::RepairRecord& record) {
  const proto::Timing& timing = record.timing();
  fmt::print("chunk {} ({}, {}) rebuilt {} with a {} helpers, slices of {}: {}\n", chunks_text(record),
             record.policy(), human_bytes(record.chunk_bytes()), destination_text(record), tree_text(record),
             human_bytes(record.slice_bytes()),
             rate_text(record.chunk_bytes() * static_cast<uint64_t>(std::max(record.indexes_size(), 1)),
                       timing.seconds()));
  fmt::print("plan {:.3f} s, read {:.3f} s, network {:.3f} s, compute {:.3f} s, write {:.3f} s\n",
             timing.plan_seconds(), timing.read_seconds(), timing.network_seconds(), timing.compute_seconds(),
             timing.write_seconds());
}

Status run(Session& session, BlockingClient& client, proto::RunRepairRequest request) {
  KINTSUGI_ASSIGN(const proto::RepairRecord record,
                  client.run(client.async().run_repair(std::move(request))));
  const bool failed = record.outcome() == proto::RepairRecord::FAILED;
  if (session.json) {
    print_json(to_json(record));
  } else if (!failed) {
    print_result(record);
  }
  if (failed) return {Code::kUnavailable, record.detail().empty() ? "the repair failed" : record.detail()};
  return {};
}

struct RunArguments {
  std::vector<std::string> chunks;
  std::string shape = "auto";
  uint64_t slice_bytes = 0, destination = 0;
};

/// All chunks of one stripe, none twice; the first one is the root's.
Result<proto::RunRepairRequest> make_request(const RunArguments& arguments) {
  proto::RunRepairRequest request;
  std::set<ChunkId> seen;
  for (const std::string& text : arguments.chunks) {
    KINTSUGI_ASSIGN(const ChunkId chunk, parse_chunk(text));
    if (!seen.insert(chunk).second)
      return Status{Code::kInvalidArgument, fmt::format("{} is given twice", text)};
    if (seen.size() == 1) {
      request.set_stripe_id(chunk.stripe.value);
      request.set_index(chunk.index);
      continue;
    }
    if (chunk.stripe.value != request.stripe_id())
      return Status{Code::kInvalidArgument, "chunks that are rebuilt together belong to one stripe"};
    request.add_more_indexes(chunk.index);
  }
  KINTSUGI_ASSIGN(const proto::RepairShape shape, proto::parse_shape(arguments.shape));
  request.set_shape(shape);
  request.set_slice_bytes(arguments.slice_bytes);
  request.set_destination(arguments.destination);
  return request;
}

}  // namespace

void add_repair_commands(CLI::App& app, Session& session) {
  CLI::App* repair = app.add_subcommand("repair", "Rebuilding of lost chunks");
  repair->require_subcommand(1);

  CLI::App* status_command = repair->add_subcommand("status", "What is being repaired and what waits");
  status_command->add_flag("--json", session.json, "Print one JSON document");
  status_command->callback([&session] {
    session.choose("repair status", [&session]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return status(session, *client);
    });
  });

  auto limit = std::make_shared<uint32_t>(kDefaultHistory);
  CLI::App* history_command = repair->add_subcommand("history", "Past repairs, newest first");
  history_command->add_option("--limit", *limit, "Default: 100");
  history_command->add_flag("--json", session.json, "Print one JSON document");
  history_command->callback([&session, limit] {
    session.choose("repair history", [&session, limit]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return history(session, *client, *limit);
    });
  });

  auto arguments = std::make_shared<RunArguments>();
  CLI::App* run_command = repair->add_subcommand(
      "run", "Rebuild chunks of one stripe now, in one pass, and report how long it took");
  run_command->add_option("--chunk", arguments->chunks, "STRIPE:INDEX; several of one stripe when repeated")
      ->required()
      ->take_all();
  run_command->add_option("--shape", arguments->shape, "Default: auto")
      ->check(CLI::IsMember({"star", "staggered", "ppr", "chain", "weighted", "auto"}));
  run_command->add_option("--slice", arguments->slice_bytes, "As in 512KiB; the chunk size means unsliced")
      ->transform(CLI::AsSizeValue(false));
  run_command->add_option("--dst", arguments->destination, "Server that gets the (first) chunk");
  run_command->add_flag("--json", session.json, "Print one JSON document");
  run_command->callback([&session, arguments] {
    const auto parsed = make_request(*arguments);
    if (!parsed) throw CLI::ValidationError("--chunk", parsed.error().message());
    const proto::RunRepairRequest request = *parsed;
    session.choose("repair run", [&session, request]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return run(session, *client, request);
    });
  });
}

}  // namespace kintsugi::cli
