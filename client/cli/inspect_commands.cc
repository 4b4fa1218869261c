// stripe show, fsck.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/paths.h"
#include "client/cli/printable.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;

Status show_stripe(Session& session, BlockingClient& client, const uint64_t& stripe_id) {
  KINTSUGI_ASSIGN(const proto::ShowStripeResponse answer, client.run(client.async().show_stripe(stripe_id)));
  const proto::Stripe& stripe = answer.stripe();
  if (session.json) {
    Json document = to_json(stripe);
    document["state"] = answer.state();
    document["servers"] = Json::array();
    for (const proto::ServerState& server : answer.servers())
      document["servers"].push_back(to_json(server));
    print_json(document);
    return {};
  }
  fmt::print("stripe {}: {}, {} user bytes, {}\n", stripe.stripe_id(), stripe.policy(), stripe.length(),
             answer.state());
  for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
    fmt::print("  {:>2}  {:<20} {:<21} {:>10}  crc {:08x}  {}\n", chunk.index(), chunk.server_id(),
               chunk.address().empty() ? "-" : chunk.address(), chunk.length(), chunk.crc(),
               chunk.available() ? "available" : "missing");
  }
  return {};
}

struct FsckArguments {
  std::string path = "/";
  bool list_missing = false;
};

struct FsckTotals {
  uint64_t files = 0, directories = 0, stripes = 0, chunks = 0, missing_chunks = 0, degraded = 0, lost = 0;
  void add(const proto::FsckResponse& page) {
    files += page.files();
    directories += page.directories();
    stripes += page.stripes();
    chunks += page.chunks();
    missing_chunks += page.missing_chunks();
    degraded += page.degraded_stripes();
    lost += page.lost_stripes();
  }
};

Json to_json(const proto::FsckProblem& problem) {
  Json missing = Json::array();
  for (uint32_t index : problem.missing())
    missing.push_back(index);
  return {{"path", problem.path()},
          {"stripe_id", problem.stripe_id()},
          {"missing", std::move(missing)},
          {"lost", problem.lost()},
          {"detail", problem.detail()}};
}

void print_problem(const proto::FsckProblem& problem, bool only_chunks) {
  std::string indices;
  for (uint32_t index : problem.missing()) {
    if (only_chunks) fmt::print("{}:{}\n", problem.stripe_id(), index);
    indices += fmt::format("{}{}", indices.empty() ? "" : ", ", index);
  }
  if (only_chunks) return;
  fmt::print("{}: stripe {}: missing chunks {}{}{}\n", shown_name(problem.path()), problem.stripe_id(),
             indices, problem.lost() ? ": too few are left, data is lost" : "",
             problem.detail().empty() ? "" : ": " + shown_message(problem.detail()));
}

/// Fails when anything is missing, after it printed everything.
Status fsck(Session& session, BlockingClient& client, const FsckArguments& arguments) {
  const auto& [path, list_missing] = arguments;
  KINTSUGI_TRY(check_remote(path));
  FsckTotals totals;
  Json problems = Json::array();
  std::string after;
  while (true) {
    KINTSUGI_ASSIGN(const proto::FsckResponse page, client.run(client.async().fsck(path, after)));
    totals.add(page);
    for (const proto::FsckProblem& problem : page.problems()) {
      if (session.json) {
        problems.push_back(to_json(problem));
      } else {
        print_problem(problem, list_missing);
      }
    }
    if (!page.more()) break;
    after = page.next_after();
  }
  KINTSUGI_ASSIGN(const proto::MetadataStatusResponse metadata, client.run(client.async().metadata_status()));
  const bool doubt = metadata.has_doubt();
  if (session.json) {
    print_json({{"path", path},
                {"metadata_in_doubt", doubt},
                {"files", totals.files},
                {"directories", totals.directories},
                {"stripes", totals.stripes},
                {"chunks", totals.chunks},
                {"missing_chunks", totals.missing_chunks},
                {"degraded_stripes", totals.degraded},
                {"lost_stripes", totals.lost},
                {"problems", std::move(problems)}});
  } else if (!list_missing) {
    fmt::print("{} files, {} directories, {} stripes, {} chunks: {}\n", totals.files, totals.directories,
               totals.stripes, totals.chunks,
               totals.missing_chunks == 0 && totals.lost == 0 ? "all whole" : "not whole");
  }
  const bool whole = totals.missing_chunks == 0 && totals.degraded == 0 && totals.lost == 0;
  if (doubt && whole) {
    return {
        Code::kConflict,
        "the metadata is older than chunks beside it, so newer files may be missing (see `kintsugi metadata "
        "status`)"};
  }
  if (whole) return {};
  return {Code::kUnavailable, fmt::format("{} chunks missing in {} stripes, {} stripes lost",
                                          totals.missing_chunks, totals.degraded + totals.lost, totals.lost)};
}

}  // namespace

std::vector<Command> inspect_commands() {
  const auto stripe_id = std::make_shared<uint64_t>(0);
  const auto a = std::make_shared<FsckArguments>();
  return {{.name = "stripe",
           .help = "Look at a stripe",
           .commands = {{.name = "show",
                         .help = "Show where the chunks of a stripe are",
                         .options = {{"ID", stripe_id.get(), "As `kintsugi stat` shows it", kRequired}},
                         .prints_json = true,
                         .run = connected(stripe_id, show_stripe)}}},
          {.name = "fsck",
           .help = "Check that every file's chunks are there; the exit code is 1 when not",
           .options = {{"PATH", &a->path, "File or directory in the cluster; default: /"},
                       {.names = "--list-missing",
                        .target = &a->list_missing,
                        .help = "Print only the missing chunks, as STRIPE:INDEX; not with --json",
                        .excludes = "--json"}},
           .prints_json = true,
           .run = connected(a, fsck)}};
}

}  // namespace kintsugi::cli
