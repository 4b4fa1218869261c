// A host shows a certificate that can work, in the role that it names, and takes a new one from its files.
#include <gmock/gmock.h>

#include "common/runtime/tls/tls_session.h"
#include "tests/common/tls_rig.h"

namespace kintsugi::runtime {
namespace {

TEST(Tls, AnIdentityThatCannotWorkIsRefusedInOneLine) {
  CertificateFolder folder("cluster"), foreign("elsewhere");
  const TlsFiles good = folder.issue("store-1", {kServer}), other = folder.issue("store-2", {"10.0.0.2"});
  const auto why = [](const TlsFiles& files) {
    const auto loaded = TlsIdentity::load(files);
    return loaded ? "it was loaded" : loaded.error().message();
  };
  EXPECT_EQ(why(good), "it was loaded");
  TlsFiles files = good;
  files.key = other.key;
  EXPECT_THAT(why(files), ::testing::HasSubstr("is not the key of the certificate"));
  files = good;
  files.authority = foreign.issue("x", {}).authority;
  EXPECT_THAT(why(files), ::testing::HasSubstr("(of \"store-1\") is not one of the authority in"));
  EXPECT_THAT(why(folder.self_made("me")), ::testing::HasSubstr("is not one of the authority in"));
  files = good;
  files.authority = good.certificate;
  EXPECT_THAT(why(files), ::testing::HasSubstr("is no authority's"));
  // The list of revocations did not arrive wholly.
  folder.revoke(other);
  EXPECT_EQ(why(good), "it was loaded");
  std::filesystem::resize_file(good.authority, std::filesystem::file_size(good.authority) - 60);
  EXPECT_THAT(why(good), ::testing::HasSubstr("is damaged or cut off"));
  files.authority = "";
  EXPECT_EQ(why(files), "tls.authority is not set: TLS needs all three files");
  files = good;
  files.certificate = good.key;
  EXPECT_THAT(why(files), ::testing::HasSubstr("holds no certificate as PEM"));
  files.certificate = "/nowhere";
  EXPECT_THAT(why(files), ::testing::HasSubstr("/nowhere"));
  ::chmod(other.key.c_str(), 0640);
  EXPECT_THAT(why(other), ::testing::HasSubstr("has mode 0640: others may read it (chmod 600)"));
}

/// Returns what one end of ours says of a peer that shows this certificate without having looked at it; nothing when it accepts
/// the peer.
std::string refusal_of(const TlsFiles& own, TlsEnd end, const TlsFiles& shown) {
  const OwnedSslContext context(SSL_CTX_new(TLS_method()));
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), shown.certificate.c_str()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), shown.key.c_str(), SSL_FILETYPE_PEM), 1);
  const OwnedSsl peer(SSL_new(context.get()));
  SSL_set_bio(peer.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  end == TlsEnd::kClient ? SSL_set_accept_state(peer.get()) : SSL_set_connect_state(peer.get());
  const WallTime now(19723 * kDay);
  TlsSession session(*TlsIdentity::load(own), end, end == TlsEnd::kClient ? kServer : "", now);
  for (int turn = 0; turn < 4; ++turn) {
    SSL_do_handshake(peer.get());
    std::array<std::byte, 16384> bytes;
    for (int got; (got = BIO_read(SSL_get_wbio(peer.get()), bytes.data(), bytes.size())) > 0;) {
      std::ranges::copy(std::span(bytes).first(got), session.room(got).begin());
      session.filled(got);
    }
    const auto done = session.shake_hands();
    if (!done) return done.error().message();
    if (*done) return "";
    BIO_write(SSL_get_rbio(peer.get()), session.output().data(), static_cast<int>(session.output().size()));
    session.output().clear();
  }
  return "the handshake did not end";
}

TEST(Tls, ACertificateIsAcceptedOnlyInTheRoleThatItNames) {
  CertificateFolder folder("cluster");
  const TlsFiles host = folder.issue("store-1", {kServer});
  const auto with = [&](const char* name, const char* usage) {
    return folder.issue_with_usage(name, {kServer}, usage);
  };
  const TlsFiles bare = with("bare", ""), server = with("server", "serverAuth"),
                 mail = with("mail", "emailProtection"), any = with("any", "anyExtendedKeyUsage"),
                 both = with("both", "clientAuth,serverAuth");
  for (const TlsEnd end : {TlsEnd::kClient, TlsEnd::kServer, TlsEnd::kPages}) {
    EXPECT_EQ(refusal_of(host, end, both), "");
    EXPECT_EQ(
        refusal_of(host, end, bare),
        "tls: the certificate of \"bare\" has no extended key usage: one of a client needs clientAuth, and "
        "one of a daemon serverAuth, too");
    for (const TlsFiles& other : {mail, any})
      EXPECT_THAT(refusal_of(host, end, other),
                  ::testing::HasSubstr("has neither serverAuth nor clientAuth in its extended key usage"));
  }
  EXPECT_EQ(refusal_of(host, TlsEnd::kClient, server), "");
  EXPECT_THAT(refusal_of(host, TlsEnd::kServer, server),
              ::testing::HasSubstr(
                  "the certificate of \"server\" is only a server's: who connects needs clientAuth"));
  EXPECT_THAT(refusal_of(host, TlsEnd::kClient, folder.issue("user", {})),
              ::testing::HasSubstr("is a client's: no server may show it"));
  // Who has such a certificate is told so at the start.
  for (const TlsFiles& unusable : {bare, server, mail, any}) {
    const auto loaded = TlsIdentity::load(unusable);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(loaded.error().message(), ::testing::HasSubstr("extended key usage"));
    EXPECT_THAT(loaded.error().message(), ::testing::HasSubstr(unusable.certificate));
  }
}

TEST(Tls, ANewCertificateIsUsedByTheNextConnectionAndAnUnusableOneByNone) {
  CertificateFolder folder("cluster");
  const TlsFiles files = folder.issue("old", {kServer});
  const auto credentials = *TlsCredentials::load(files);
  TimePoint now{};
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  const TlsFiles renewed = folder.issue("new", {kServer});
  rpc::LogCapture log;
  // The certificate is there before its key is.
  std::filesystem::rename(renewed.certificate, files.certificate);
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"") << "it was looked at a moment ago";
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"old\"");
  EXPECT_EQ(log.count("cannot be used, the former ones stay in use"), 1u) << "once, and not every time";
  std::filesystem::rename(renewed.key, files.key);
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"new\"");
  EXPECT_EQ(log.count("new files were read: the certificate of \"new\" is valid until 2024-01-30"), 1u);
  std::filesystem::remove(files.key);
  now += TlsCredentials::kLookInterval;
  EXPECT_EQ(credentials->current(now)->name(), "\"new\"");
}

}  // namespace
}  // namespace kintsugi::runtime
