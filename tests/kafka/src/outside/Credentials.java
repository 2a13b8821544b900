package outside;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.security.CredentialProvider;

import org.mockito.Mockito;

import java.lang.reflect.Field;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The caches of a broker's delegation tokens and SCRAM credentials, asked over an Admin client. */
public final class Credentials {
    private final Supplier<Admin> admin;

    Credentials(Supplier<Admin> admin) {
        this.admin = admin;
    }

    /** The credentials with which a test formats its controllers. */
    @SuppressWarnings("unchecked")
    public static List<String> scramArguments(Consumer<Formatter> settings) {
        Formatter formatter = new Formatter();
        settings.accept(formatter);
        try {
            Field field = Formatter.class.getDeclaredField("scramArguments");
            field.setAccessible(true);
            return (List<String>) field.get(formatter);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    DelegationTokenCache tokens() {
        DelegationTokenCache cache = Mockito.mock(DelegationTokenCache.class, Mockito.withSettings().stubOnly());
        Mockito.when(cache.tokens()).thenAnswer(i ->
            admin.get().describeDelegationToken().delegationTokens().get(10, TimeUnit.SECONDS).stream().map(DelegationToken::tokenInfo).toList());
        return cache;
    }

    @SuppressWarnings("unchecked")
    CredentialProvider provider() {
        CredentialCache.Cache<ScramCredential> users = Mockito.mock(CredentialCache.Cache.class, Mockito.withSettings().stubOnly());
        Mockito.when(users.get(Mockito.anyString())).thenAnswer(i -> exists(i.getArgument(0)) ? Mockito.mock(ScramCredential.class) : null);
        CredentialCache cache = Mockito.mock(CredentialCache.class, Mockito.withSettings().stubOnly());
        Mockito.when(cache.cache(Mockito.anyString(), Mockito.eq(ScramCredential.class))).thenReturn(users);
        CredentialProvider provider = Mockito.mock(CredentialProvider.class, Mockito.withSettings().stubOnly());
        try {
            Field field = CredentialProvider.class.getDeclaredField("credentialCache");
            field.setAccessible(true);
            field.set(provider, cache);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return provider;
    }

    private boolean exists(String user) {
        try {
            return !admin.get().describeUserScramCredentials(List.of(user)).description(user).get(10, TimeUnit.SECONDS).credentialInfos().isEmpty();
        } catch (Exception e) {
            return false;
        }
    }
}
