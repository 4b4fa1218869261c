#include "metaserver/service/daemon_list.h"

#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kListDaemons{"metaserver.list_daemons"};

}  // namespace

void DaemonList::register_on(rpc::Server& server) {
  server.handle<&DaemonList::list>(rpc::Method::kListDaemons, *this);
}

asio::awaitable<Status> DaemonList::list(Context context, const proto::Empty&,
                                         proto::ListDaemonsResponse& response) {
  sight::Module module{context, kListDaemons};
  proto::ListedDaemon& own = *response.add_daemons();
  own.set_kind("metaserver");
  own.set_name("metaserver");
  for (const auto& [id, server] : servers_.servers()) {
    proto::ListedDaemon& listed = *response.add_daemons();
    listed.set_kind("chunkserver");
    listed.set_name(servers_.name_of(id));
    listed.set_address(server.stored.address());
    // One that is being stopped is suspect at once.
    listed.set_away(!server.registered || server.liveness != proto::ServerState::ALIVE);
  }
  host_->list(response);
  if (const auto monitor = monitor_.monitor()) {
    proto::ListedDaemon& listed = *response.add_daemons();
    listed.set_kind("monitor");
    listed.set_name("monitor");
    listed.set_address(monitor->address);
  }
  co_return module.finish({});
}

}  // namespace kintsugi::metaserver
