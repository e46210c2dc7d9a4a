package tidemark.platform;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Creates a version of a Delta log on S3 only where nobody has: by a conditional write (If-None-Match).
 *
 * Delta's own store for S3 looks first and writes then, so two drivers can both commit one version and the
 * later one erases the earlier. Here the store decides. A writer that lost its answer and asked again finds
 * its own file and is told that it exists; whoever asks the log for its token then learns that it had won.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {

    public ConditionalLogStore(Configuration hadoopConf) {
        super(hadoopConf);
    }

    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, hadoopConf);
            return;
        }
        FileSystem fs = path.getFileSystem(hadoopConf);
        StringBuilder text = new StringBuilder();
        while (actions.hasNext()) {
            text.append((String) actions.next()).append('\n');
        }
        try {
            // The text is whole before the stream is open: a failure while it is made leaves nothing behind.
            FSDataOutputStream stream = (FSDataOutputStream) fs.createFile(path)
                .overwrite(false)
                .recursive()
                .must("fs.option.create.conditional.overwrite", true)
                .build();
            stream.write(text.toString().getBytes(StandardCharsets.UTF_8));
            stream.close();
        } catch (RemoteFileChangedException e) {
            throw new java.nio.file.FileAlreadyExistsException(path.toString());
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException e) {
            throw new java.nio.file.FileAlreadyExistsException(path.toString());
        }
    }
}
