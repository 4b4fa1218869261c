// metadata status, accept; quarantine list, keep, empty.

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

using client::BlockingClient;
using Change = proto::ChangeQuarantineRequest;

/// "2 d 5 h", "40 min".
std::string time_left(uint64_t seconds) {
  if (seconds >= 86'400) return fmt::format("{} d {} h", seconds / 86'400, seconds % 86'400 / 3600);
  if (seconds >= 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} min", (seconds + 59) / 60);
}

/// Fails when the metadata is in doubt, after it printed everything.
Status show_metadata(Session& session, BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::MetadataStatusResponse answer, client.run(client.async().metadata_status()));
  const bool doubt = answer.has_doubt();
  if (session.json) {
    Json document{{"epoch", fmt::format("{:016x}", answer.mark().epoch())},
                  {"position", answer.mark().position()},
                  {"starts", answer.starts()},
                  {"in_doubt", doubt},
                  {"quarantined_chunks", answer.quarantined_chunks()},
                  {"format", answer.format()},
                  {"newest_format", answer.newest_format()}};
    if (doubt) {
      document["doubt"] = {{"since_ns", answer.doubt().since_ns()},
                           {"server_id", std::to_string(answer.doubt().server_id())},
                           {"server_number", answer.doubt().server().number()},
                           {"server_name", answer.doubt().server().name()},
                           {"evidence", answer.doubt().evidence()}};
    }
    print_json(document);
  } else {
    fmt::print("{}{} in quarantine (start {} of the metaserver, {} writes)\n",
               doubt ? "" : "The metadata fits the chunks; ", counted(answer.quarantined_chunks(), "chunk"),
               answer.starts(), answer.mark().position());
    if (answer.format() < answer.newest_format())
      fmt::print(
          "Format {}: the version before can be brought back until `kintsugi cluster finalize` makes it "
          "{}.\n",
          answer.format(), answer.newest_format());
    if (doubt) {
      fmt::print(
          "IN DOUBT since {}: {}.\n"
          "This metadata is older than chunks of this cluster. Files are served as far as it knows them, and "
          "no "
          "chunk is\n"
          "deleted anywhere until that is decided:\n"
          "  - if newer metadata exists: stop the metaserver, put it into data_dir, start it again;\n"
          "  - if it is gone for good:   kintsugi metadata accept\n",
          local_time(answer.doubt().since_ns()), answer.doubt().evidence());
    }
  }
  return doubt ? Status{Code::kConflict, "the metadata is older than chunks of this cluster"} : Status{};
}

Status accept_metadata(Session&, BlockingClient& client) {
  KINTSUGI_TRY(client.run(client.async().accept_metadata()));
  fmt::print(
      "This metadata counts as it is. Chunks that it does not know are in quarantine (kintsugi quarantine "
      "list)\n"
      "and are deleted when their time is over; deletions continue.\n");
  return {};
}

Json json_of(const proto::QuarantinedChunk& chunk) {
  return {{"server_id", std::to_string(chunk.server_id())},
          {"server_number", chunk.server().number()},
          {"server_name", chunk.server().name()},
          {"stripe_id", chunk.stripe_id()},
          {"index", chunk.index()},
          {"foreign", chunk.foreign()},
          {"seconds_left", chunk.seconds_left()}};
}

Status list_quarantine(Session& session, BlockingClient& client) {
  proto::ListQuarantineRequest request;
  Json chunks = Json::array();
  uint64_t count = 0;
  while (true) {
    KINTSUGI_ASSIGN(const proto::ListQuarantineResponse page,
                    client.run(client.async().list_quarantine(request)));
    for (const proto::QuarantinedChunk& chunk : page.chunks()) {
      ++count;
      if (session.json) {
        chunks.push_back(json_of(chunk));
      } else {
        fmt::print("{}:{:<3} on server {:<20}  deleted in {:<10} {}\n", chunk.stripe_id(), chunk.index(),
                   chunk.server().name(), time_left(chunk.seconds_left()),
                   chunk.foreign() ? "written under other metadata" : "never sealed, as far as is known");
      }
    }
    if (!page.more()) break;
    *request.mutable_after() = page.chunks(page.chunks_size() - 1);
  }
  if (session.json) {
    print_json({{"chunks", std::move(chunks)}});
  } else {
    fmt::print("{} in quarantine\n", counted(count, "chunk"));
  }
  return {};
}

Status change_quarantine(Session& session, BlockingClient& client, Change::Change change,
                         uint64_t stripe_id) {
  KINTSUGI_ASSIGN(const proto::ChangeQuarantineResponse answer,
                  client.run(client.async().change_quarantine(change, stripe_id)));
  if (session.json) {
    print_json({{"chunks", answer.chunks()}});
  } else {
    fmt::print("{} {}\n", counted(answer.chunks(), "chunk"),
               change == Change::EMPTY ? "to be deleted now" : "to be kept for the whole retention again");
  }
  return {};
}

struct KeepArguments {
  uint64_t stripe_id = 0;
};

Status keep_quarantine(Session& session, BlockingClient& client, const KeepArguments& arguments) {
  return change_quarantine(session, client, Change::RENEW, arguments.stripe_id);
}

Status empty_quarantine(Session& session, BlockingClient& client, const KeepArguments& arguments) {
  return change_quarantine(session, client, Change::EMPTY, arguments.stripe_id);
}

}  // namespace

std::vector<Command> metadata_commands() {
  const auto a = std::make_shared<KeepArguments>();
  const std::vector<Option> which{{"--stripe", &a->stripe_id, "Only chunks of this stripe; default: all"}};
  return {
      {.name = "metadata",
       .help = "Metadata that may be older than the chunks: see it, decide on it",
       .commands =
           {{.name = "status",
             .help = "Show whether the metadata fits the chunks; the exit code is 1 when not",
             .prints_json = true,
             .run = connected(show_metadata)},
            {.name = "accept",
             .help = "Accept metadata that is older than the chunks, when newer metadata is lost for good",
             .run = connected(accept_metadata)}}},
      {.name = "quarantine",
       .help = "Chunks that no file names and that may not be garbage",
       .commands = {{.name = "list",
                     .help = "List the chunks in quarantine, and when each will be deleted",
                     .prints_json = true,
                     .run = connected(list_quarantine)},
                    {.name = "keep",
                     .help = "Start the retention of quarantined chunks again",
                     .options = which,
                     .prints_json = true,
                     .run = connected(a, keep_quarantine)},
                    {.name = "empty",
                     .help = "Delete quarantined chunks now",
                     .options = which,
                     .prints_json = true,
                     .run = connected(a, empty_quarantine)}}}};
}

}  // namespace kintsugi::cli
