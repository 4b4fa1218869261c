// cluster finalize.

#include "client/cli/commands.h"
#include "client/cli/format.h"
#include "client/cli/session.h"

namespace kintsugi::cli {
namespace {

Status finalize(Session& session, client::BlockingClient& client) {
  KINTSUGI_ASSIGN(const proto::FinalizeResponse answer, client.run(client.async().finalize()));
  if (session.json) {
    print_json({{"former_format", answer.former_format()}, {"format", answer.format()}});
  } else if (answer.former_format() == answer.format()) {
    fmt::print("The cluster has format {} already: there is nothing to finalize.\n", answer.format());
  } else {
    fmt::print("The cluster has format {} now, and had {}. The version before cannot work on it any more.\n",
               answer.format(), answer.former_format());
  }
  return {};
}

}  // namespace

Command finalize_command() {
  return {.name = "finalize",
          .help = "Finish an upgrade: use what the new version brings; the old version cannot run any more",
          .prints_json = true,
          .run = connected(finalize)};
}

}  // namespace kintsugi::cli
