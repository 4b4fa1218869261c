#include <charconv>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "client/cli/commands.h"
#include "client/cli/format.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using Json = nlohmann::ordered_json;

constexpr uint32_t kDefaultHistory = 100;

Result<std::pair<uint64_t, uint32_t>> parse_chunk(const std::string& text) {
  std::pair<uint64_t, uint32_t> chunk;
  const char* end = text.data() + text.size();
  const auto stripe = std::from_chars(text.data(), end, chunk.first);
  if (stripe.ec == std::errc() && stripe.ptr != end && *stripe.ptr == ':') {
    const auto index = std::from_chars(stripe.ptr + 1, end, chunk.second);
    if (index.ec == std::errc() && index.ptr == end) return chunk;
  }
  return Status{Code::kInvalidArgument, fmt::format("{}: a chunk is STRIPE:INDEX, as in 81:3", text)};
}

void print_record(const proto::RepairRecord& record) {
  fmt::print("{}  {}:{}  {}  {}  {}  {:.2f} s{}{}\n", local_time(record.started_ns()), record.stripe_id(),
             record.index(), record.outcome(), record.shape(), human_bytes(record.chunk_bytes()),
             record.timing().seconds(), record.reason().empty() ? "" : "  (" + record.reason() + ")",
             record.detail().empty() ? "" : "  " + record.detail());
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
  fmt::print("chunk {}:{} ({}, {}) rebuilt on server {} with a {} of {} helpers, slices of {}: {}\n",
             record.stripe_id(), record.index(), record.policy(), human_bytes(record.chunk_bytes()),
             record.destination(), record.shape(), record.helpers_size(), human_bytes(record.slice_bytes()),
             rate_text(record.chunk_bytes(), timing.seconds()));
  fmt::print("plan {:.3f} s, read {:.3f} s, network {:.3f} s, compute {:.3f} s, write {:.3f} s\n",
             timing.plan_seconds(), timing.read_seconds(), timing.network_seconds(), timing.compute_seconds(),
             timing.write_seconds());
}

Status run(Session& session, BlockingClient& client, proto::RunRepairRequest request) {
  KINTSUGI_ASSIGN(const proto::RepairRecord record,
                  client.run(client.async().run_repair(std::move(request))));
  const bool failed = record.outcome() == "failed";
  if (session.json) {
    print_json(to_json(record));
  } else if (!failed) {
    print_result(record);
  }
  if (failed) return {Code::kUnavailable, record.detail().empty() ? "the repair failed" : record.detail()};
  return {};
}

struct RunArguments {
  std::string chunk, shape = "auto";
  uint64_t slice_bytes = 0, destination = 0;
};

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
  CLI::App* run_command = repair->add_subcommand("run", "Rebuild one chunk now and report how long it took");
  run_command->add_option("--chunk", arguments->chunk, "STRIPE:INDEX")->required();
  run_command->add_option("--shape", arguments->shape, "Default: auto")
      ->check(CLI::IsMember({"star", "ppr", "chain", "auto"}));
  run_command->add_option("--slice", arguments->slice_bytes,
                          "Slice size in bytes; the chunk size means unsliced");
  run_command->add_option("--dst", arguments->destination, "Server that gets the chunk");
  run_command->add_flag("--json", session.json, "Print one JSON document");
  run_command->callback([&session, arguments] {
    const auto chunk = parse_chunk(arguments->chunk);
    if (!chunk) throw CLI::ValidationError("--chunk", chunk.error().message());
    proto::RunRepairRequest request;
    request.set_stripe_id(chunk->first);
    request.set_index(chunk->second);
    request.set_shape(arguments->shape);
    request.set_slice_bytes(arguments->slice_bytes);
    request.set_destination(arguments->destination);
    session.choose("repair run", [&session, request]() -> Status {
      KINTSUGI_ASSIGN(BlockingClient * client, session.connect());
      return run(session, *client, request);
    });
  });
}

}  // namespace kintsugi::cli
